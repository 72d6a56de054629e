/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads that make a file durable on somebody's behalf, and on whose: io_uring
 * workers (iou-wrk), and the kworkers that sync after an asynchronous direct
 * write has completed or for a libaio fsync.  What such a thread works on leads to the request.
 */
#ifndef IOSTRATA_WORK_BPF_H
#define IOSTRATA_WORK_BPF_H

#include "compat.bpf.h"
#include "inode.bpf.h"
#include "watch.bpf.h"

enum uring_opcode {
	IORING_OP_READV = 1,
	IORING_OP_WRITEV = 2,
	IORING_OP_FSYNC = 3,
	IORING_OP_READ_FIXED = 4,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_SYNC_FILE_RANGE = 8,
	IORING_OP_FALLOCATE = 17,
	IORING_OP_READ = 22,
	IORING_OP_WRITE = 23,
	IORING_OP_SPLICE = 30,
	IORING_OP_FTRUNCATE = 55,   /* since Linux b4bb1900c12e (in v6.9) */
	IORING_OP_READV_FIXED = 60, /* these two since Linux bdabba04bb10 (in v6.15) */
	IORING_OP_WRITEV_FIXED = 61,
};

#define OPCODE(name) (1ull << IORING_OP_##name)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kthread {
	void *data;
};

struct work_struct {
	void *func;
};

struct workqueue_struct {
	char name[24];
};

struct pool_workqueue {
	struct workqueue_struct *wq;
};

struct worker {
	struct work_struct *current_work;
	void *current_func;
	struct pool_workqueue *current_pwq;
	void *last_func;
	char desc[24];
};

struct blkdev_dio {
	struct kiocb *iocb;
	struct bio bio;
};

struct iomap_dio {
	struct kiocb *iocb;
	struct {
		struct work_struct work;
	} aio;
};

/* What a file in an overlay was asked asynchronously: the file below is asked by another control
 * block, which these begin with. */
struct backing_aio {
	struct kiocb *orig_iocb; /* since Linux a6293b3e285c (in v6.8) */
};

struct ovl_aio_req {
	struct kiocb *orig_iocb;
};

struct fsync_iocb {
	struct file *file;
	struct work_struct work;
	bool datasync;
};

struct kioctx {
	unsigned long user_id;
	unsigned long mmap_base;
};

struct io_event___result {
	__u64 obj;
	__s64 res;
};

struct aio_kiocb {
	struct kioctx *ki_ctx;
	struct io_event___result ki_res;
};

struct io_wq_work {
	int cancel_seq;
};

struct io_wq {
	struct task_struct *task; /* whose workers these are; since Linux 685fe7feedb9 (in v5.13) */
};

struct io_worker {
	struct io_wq_work *cur_work;
	struct io_wq *wq; /* since Linux eb47943f2238 (in v6.4) */
	struct io_wqe *wqe;
};

struct io_wqe {
	struct io_wq *wq;
};

struct io_kiocb___work {
	__u8 opcode;
	struct io_wq_work work;
};

#pragma clang attribute pop

/* A control block's key: its address in the process, told apart between processes. */
static __always_inline __u64 aio_key(__u64 context, __u64 address)
{
	return address + context * 0x9e3779b97f4a7c15ull;
}

/* What a worker of io_uring is to that, NULL: this kernel does not tell. */
static __always_inline struct io_worker *uring_worker(struct task_struct *task)
{

	if (!bpf_core_field_exists(struct io_worker, cur_work))
		return NULL;
	if (bpf_core_field_exists(task->worker_private))
		return PEEK(task, worker_private);
	if (bpf_core_field_exists(task->pf_io_worker))
		return PEEK(task, pf_io_worker);
	return NULL;
}

static __always_inline __u64 uring_worked_on(struct task_struct *task)
{
	struct io_worker *worker = uring_worker(task);
	struct io_wq_work *work = worker ? PEEK(worker, cur_work) : NULL;

	if (!work)
		return 0;
	return (__u64)work - bpf_core_field_offset(struct io_kiocb___work, work);
}

/* The thread whose rings a worker of io_uring works for, 0: it is not known. */
static __always_inline __u32 uring_owner(struct task_struct *task)
{
	struct io_worker *worker = uring_worker(task);
	struct io_wq *queue = NULL;
	struct task_struct *owner;
	struct io_wqe *node;

	if (!worker || !bpf_core_field_exists(queue->task))
		return 0;
	if (bpf_core_field_exists(worker->wq)) {
		queue = PEEK(worker, wq);
	} else if (bpf_core_field_exists(worker->wqe)) {
		node = PEEK(worker, wqe);
		queue = PEEK(node, wq);
	}
	if (!queue)
		return 0;
	owner = PEEK(queue, task);
	return PEEK(owner, pid);
}

static __always_inline bool request_reads(__u32 opcode)
{
	__u64 reads = OPCODE(READV) | OPCODE(READ_FIXED) | OPCODE(READ) | OPCODE(READV_FIXED);

	return opcode < 64 && (reads >> opcode & 1);
}

/* Of what reads, or writes no data, that is asked again where its file is known. */
static __always_inline bool request_is_recorded(__u32 opcode)
{
	__u64 wanted = OPCODE(WRITEV) | OPCODE(FSYNC) | OPCODE(WRITE_FIXED) |
		       OPCODE(SYNC_FILE_RANGE) | OPCODE(FALLOCATE) | OPCODE(WRITE) |
		       OPCODE(SPLICE) | OPCODE(FTRUNCATE) | OPCODE(WRITEV_FIXED);

	return (opcode < 64 && (wanted >> opcode & 1)) || (filter.reads && request_reads(opcode));
}

static __noinline void uring_worker_tell(struct thread *thread, __u64 now_ns)
{
	struct task_struct *task = current_task();
	struct io_kiocb___work *req;

	if (!(PEEK(task, flags) & PF_IO_WORKER))
		return;
	req = (struct io_kiocb___work *)uring_worked_on(task);
	if (req && !request_is_recorded(PEEK(req, opcode)))
		req = NULL;
	if (thread->request_key == (__u64)req)
		return;
	thread_works_on(thread, (__u64)req, POINT_io_uring_work, now_ns);
}

/* Which request the current thread is at, if it is a worker of io_uring and that has changed: no
 * point of the kernel tells, and the request may be completed by another thread.  now_ns 0: of
 * this moment. */
static __always_inline void uring_work_tell(struct thread *thread, __u64 now_ns)
{
	if (unlikely(thread->kind == THREAD_WORKER))
		uring_worker_tell(thread, now_ns);
}

static __always_inline struct worker *current_worker(struct task_struct *task)
{
	struct kthread *kthread;

	if (bpf_core_field_exists(task->worker_private))
		kthread = PEEK(task, worker_private);
	else
		kthread = PEEK(task, set_child_tid);
	return (struct worker *)PEEK(kthread, data);
}

static __always_inline struct work_struct *current_work(struct task_struct *task)
{
	return PEEK(current_worker(task), current_work);
}

/* libaio's key for what may be its control block, 0: it is not.  Nothing but a
 * struct kioctx says its address twice. */
static __always_inline __u64 aio_key_of(struct aio_kiocb *control)
{
	struct kioctx *context;
	__u64 id;

	if (!bpf_core_type_exists(struct aio_kiocb))
		return 0;
	context = PEEK(control, ki_ctx);
	id = PEEK(context, user_id);
	if (!id || id != PEEK(context, mmap_base))
		return 0;
	return aio_key((__u64)context, PEEK(control, ki_res.obj));
}

static __always_inline bool is_in_overlay(struct file *file)
{
	return file && BPF_CORE_READ(file, f_inode, i_sb, s_magic) == OVERLAY_MAGIC;
}

/* What an overlay was asked by, if what may be its control block is that; else NULL. Of others there is
 * anything in its place. */
static __always_inline struct kiocb *kiocb_above(struct kiocb *iocb)
{
	struct kiocb *above = NULL;

	if (bpf_core_type_exists(struct backing_aio))
		above = PEEK((struct backing_aio *)iocb, orig_iocb);
	else if (bpf_core_type_exists(struct ovl_aio_req))
		above = PEEK((struct ovl_aio_req *)iocb, orig_iocb);
	return is_in_overlay(PEEK(above, ki_filp)) ? above : NULL;
}

/* The key of the request that a kiocb is of: libaio's, or io_uring's, which begins with it. Overlays
 * may lie on one another once (FILESYSTEM_MAX_STACK_DEPTH). */
static __always_inline __u64 kiocb_key_of(struct kiocb *iocb)
{
	struct kiocb *above;
	__u64 key;

	for (int i = 0; i < 2; i++) {
		above = kiocb_above(iocb);
		if (!above)
			break;
		iocb = above;
	}
	key = aio_key_of((struct aio_kiocb *)iocb);
	return key ? key : (__u64)iocb;
}

static __always_inline bool is_of_inode(struct file *file, struct inode *inode)
{
	return file && PEEK(file, f_inode) == inode;
}

/* The work may be anything: it is a direct write's that has completed, or a
 * libaio fsync, if what it lies in leads to the inode that is synced, or to one of an overlay. */
static __always_inline __u64 kworker_worked_on(struct task_struct *task, struct inode *inode)
{
	struct work_struct *work = current_work(task);
	struct fsync_iocb *fsync;
	struct iomap_dio *dio;
	struct kiocb *iocb;
	struct file *file;

	if (!work)
		return 0;
	if (bpf_core_field_exists(struct iomap_dio, aio.work)) {
		dio = (void *)work - bpf_core_field_offset(struct iomap_dio, aio.work);
		iocb = PEEK(dio, iocb);
		if (iocb && is_of_inode(PEEK(iocb, ki_filp), inode))
			return kiocb_key_of(iocb);
	}
	if (bpf_core_field_exists(struct fsync_iocb, work)) {
		fsync = (void *)work - bpf_core_field_offset(struct fsync_iocb, work);
		file = PEEK(fsync, file);
		if (is_of_inode(file, inode) || is_in_overlay(file))
			return aio_key_of((struct aio_kiocb *)fsync);
	}
	return 0;
}

/* The request (uring_event's request_key, aio_event's iocb_key) for which a
 * recorded thread syncs this file; 0: it does so for itself, or it is not known. */
static __always_inline __u64 request_worked_on(const struct thread *thread, struct inode *inode)
{
	struct task_struct *task;
	__u32 flags;

	if (thread->kind <= THREAD_TARGET)
		return 0;
	task = current_task();
	flags = PEEK(task, flags);
	if (flags & PF_IO_WORKER)
		return uring_worked_on(task);
	if (flags & PF_WQ_WORKER)
		return kworker_worked_on(task, inode);
	return 0;
}

/* The recorded thread that syncs a file there, NULL: none.  A kernel thread that
 * syncs on a watched file system is recorded from then on. */
static __always_inline struct thread *sync_thread_on(__u32 dev)
{
	__u64 ids = current_ids();
	struct thread *thread;

	compat_notice();
	thread = thread_of((__u32)ids);
	/* A target matters in its recorded calls. */
	if (thread && (!thread_at_work(thread) || thread_is_beside(thread)))
		return NULL;
	if (!thread || thread->kind == THREAD_HELPER) {
		if (!(watch_of(dev) & WATCH_FS))
			return NULL;
		thread_serve();
		return thread_of((__u32)ids);
	}
	if (watch_of(dev) & WATCH_FS)
		return thread;
	if (filter.device)
		return NULL;
	/* Below a stacked file system (overlayfs), of which alone the caller's file tells. */
	watch_add(dev, WATCH_FS);
	return thread;
}

static __always_inline struct thread *sync_thread(struct inode *inode)
{
	return sync_thread_on(inode->i_sb->s_dev);
}

#endif
