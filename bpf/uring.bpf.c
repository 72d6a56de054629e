// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * io_uring: requests that write, make durable or read are submitted, queued to a
 * worker, completed; and the io_uring_enter calls around them.  All points take
 * the request itself since Linux 48863ffd3e81 (in v6.0); earlier kernels have
 * other arguments and refuse these programs.
 */
#include "beside.bpf.h"
#include "file.bpf.h"
#include "stand_in.bpf.h"
#include "switches.bpf.h"
#include "task.bpf.h"
#include "work.bpf.h"

#define REQ_F_FIXED_FILE 1
#define REQ_F_IO_DRAIN (1 << 1)
#define REQ_F_LINKED (1 << 2 | 1 << 3)
#define REQ_F_CQE_SKIP (1 << 6)
#define FILE_SLOT_FLAGS 7ull
#define ENTER_GETEVENTS 1
#define ENTER_REGISTERED_RING (1 << 4)
#define MOST_RINGS 16 /* that a thread has registered */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct io_cqe {
	__u64 user_data;
	int res;
	int fd; /* until the request is issued */
};

struct io_rsrc_node {
	unsigned long file_ptr;
};

struct io_rsrc_data {
	unsigned int nr;
	struct io_rsrc_node **nodes;
};

struct io_file_table {
	struct io_rsrc_data data;
};

struct io_fixed_file___before {
	unsigned long file_ptr;
};

struct io_file_table___before {
	struct io_fixed_file___before *files; /* data since Linux 3597f2786b68 (in v6.13) */
};

struct list_head {
	struct list_head *next, *prev;
};

/* What the kernel's own thread submits for: mostly one ring (IORING_SETUP_ATTACH_WQ). */
struct io_sq_data {
	struct list_head ctx_list;
	struct task_struct *thread;
};

struct io_ring_ctx {
	struct io_file_table file_table;
	struct io_sq_data *sq_data;
};

struct io_uring_task {
	struct task_struct *task;
	struct file *registered_rings[MOST_RINGS];
};

struct io_kiocb {
	struct file *file;
	__u8 opcode;
	unsigned int flags;
	struct io_cqe cqe;
	struct io_ring_ctx *ctx;
	struct io_uring_task *tctx;
	struct task_struct *task; /* tctx->task since Linux b6f58a3f4aa8 (in v6.13) */
	struct io_kiocb *link;    /* what begins when this one is complete */
};

/* What a request of these opcodes keeps in its first bytes. */
struct io_rw {
	struct kiocb kiocb;
	__u32 len;
	__u32 flags;
};

struct io_sync {
	long long len;
	long long off;
	int flags;
	int mode;
};

struct io_ftrunc {
	long long len;
};

struct io_splice {
	long long off_out;
	__u64 len;
};

#pragma clang attribute pop

static __always_inline struct file *fixed_file(struct io_kiocb *req, __u32 place)
{
	struct io_ring_ctx *ring = PEEK(req, ctx);
	struct io_rsrc_node *node = NULL;
	struct io_rsrc_node **nodes;

	if (!bpf_core_field_exists(ring->file_table.data.nodes))
		return NULL;
	if (place >= PEEK(ring, file_table.data.nr))
		return NULL;
	nodes = PEEK(ring, file_table.data.nodes);
	bpf_probe_read_kernel(&node, sizeof(node), nodes + place);
	if (!node)
		return NULL;
	return (struct file *)(PEEK(node, file_ptr) & ~FILE_SLOT_FLAGS);
}

/* A request gets its file when it is issued; until then there is the descriptor, whose place has
 * something else when it is complete. */
static __always_inline struct file *request_file(struct io_kiocb *req, __u32 point)
{
	struct file *file = PEEK(req, file);

	if (file || point == POINT_io_uring_complete)
		return file;
	if (PEEK(req, flags) & REQ_F_FIXED_FILE)
		return fixed_file(req, PEEK(req, cqe.fd));
	return (struct file *)file_of_descriptor(PEEK(req, cqe.fd));
}

/* As of the calls of that name: what writes no data matters where the file makes it durable. */
static __always_inline bool request_is_wanted(__u32 opcode, __u32 open_flags)
{
	if (opcode == IORING_OP_FALLOCATE)
		return open_flags & (O_DSYNC | OPEN_OF_SYNC_INODE);
	if (opcode == IORING_OP_FTRUNCATE)
		return open_flags & OPEN_OF_SYNC_INODE;
	return !filter.reads || !request_reads(opcode) || read_is_wanted(open_flags);
}

static __always_inline void request_fill(union event *e, struct io_kiocb *req, struct file *file,
					 __u32 opcode)
{
	struct io_splice *splice = (struct io_splice *)req;
	struct io_sync *sync = (struct io_sync *)req;
	struct io_rw *rw = (struct io_rw *)req;
	long long offset, size;

	e->io_uring_submit_req.offset_bytes = -1;
	e->io_uring_submit_req.size_bytes = 0;
	e->io_uring_submit_req.rwf = 0;
	switch (opcode) {
	case IORING_OP_FSYNC:
	case IORING_OP_SYNC_FILE_RANGE:
		offset = PEEK(sync, off);
		size = PEEK(sync, len);
		e->io_uring_submit_req.rwf = PEEK(sync, flags);
		if (offset || size)
			e->io_uring_submit_req.offset_bytes = offset;
		e->io_uring_submit_req.size_bytes = part_bytes(size);
		break;
	case IORING_OP_FALLOCATE:
		e->io_uring_submit_req.offset_bytes = PEEK(sync, off);
		e->io_uring_submit_req.rwf = PEEK(sync, mode);
		break;
	case IORING_OP_FTRUNCATE:
		if (bpf_core_type_exists(struct io_ftrunc))
			e->io_uring_submit_req.offset_bytes = PEEK((struct io_ftrunc *)req, len);
		if (file && e->io_uring_submit_req.offset_bytes > file_size((__u64)file))
			e->io_uring_submit_req.rwf = RWF_OF_GROWING;
		break;
	case IORING_OP_SPLICE:
		e->io_uring_submit_req.offset_bytes = PEEK(splice, off_out);
		e->io_uring_submit_req.size_bytes = part_bytes(PEEK(splice, len));
		break;
	default:
		e->io_uring_submit_req.rwf = PEEK(rw, flags);
		if (opcode != IORING_OP_WRITEV && opcode != IORING_OP_READV &&
		    opcode != IORING_OP_WRITEV_FIXED && opcode != IORING_OP_READV_FIXED)
			e->io_uring_submit_req.size_bytes = PEEK(rw, len);
		e->io_uring_submit_req.offset_bytes = PEEK(rw, kiocb.ki_pos);
	}
}

/* Nothing else tells whose a completion is that does not fit into its ring. */
static __always_inline __u32 completion_tag(const void *ring, __u64 user_data)
{
	return (user_data * 0x9e3779b97f4a7c15ull + (__u64)ring * 0xc2b2ae3d27d4eb4full) >> 32;
}

static __always_inline int request_emit(struct io_kiocb *req, __u32 opcode, int result, __u32 point)
{
	struct file *file = request_file(req, point);
	struct file_identity identity = {};
	__u32 flags = PEEK(req, flags);
	union event *e;

	if (file && !file_identify(file, &identity))
		return 0;
	if (file && !request_is_wanted(opcode, identity.open_flags))
		return 0;
	if (point == POINT_io_uring_submit_req)
		file_tell(&identity, 0);
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->io_uring_submit_req.request_key = (__u64)req;
	request_fill(e, req, file, opcode);
	e->io_uring_submit_req.inode = identity.inode;
	e->io_uring_submit_req.dev = identity.dev;
	e->io_uring_submit_req.open_flags = identity.open_flags;
	e->io_uring_submit_req.opcode = opcode;
	e->io_uring_submit_req.result = result;
	if (flags & REQ_F_LINKED)
		e->io_uring_submit_req.rwf |= RWF_OF_LINKED;
	if (flags & REQ_F_IO_DRAIN)
		e->io_uring_submit_req.rwf |= RWF_OF_DRAINED;
	if (flags & REQ_F_CQE_SKIP)
		e->io_uring_submit_req.rwf |= RWF_OF_SILENT;
	emit_submit(e, point);
	return 1;
}

static __always_inline __u32 submitter_tid(struct io_kiocb *req)
{
	struct task_struct *task;
	struct io_uring_task *context;

	if (bpf_core_field_exists(req->tctx)) {
		context = PEEK(req, tctx);
		task = PEEK(context, task);
	} else {
		task = PEEK(req, task);
	}
	return PEEK(task, pid);
}

static __always_inline int submitted(struct io_kiocb *req)
{
	__u32 opcode = req->opcode;
	struct thread *thread;
	__u32 tag;

	if (!request_is_recorded(opcode))
		return 0;
	thread = thread_admit();
	if (!thread)
		return 0;
	tag = completion_tag(PEEK(req, ctx), req->cqe.user_data);
	if (request_emit(req, opcode, tag, POINT_io_uring_submit_req))
		thread->uring_concerned = 1;
	return 0;
}

PROGRAM("tp_btf/io_uring_submit_req", uring_submit_req, __u64 *ctx)
{
	return submitted(ARGUMENT(struct io_kiocb *, 0));
}

/* The same point's name before Linux 2ad57931db64 (in v6.4). */
PROGRAM("tp_btf/io_uring_submit_sqe", uring_submit_sqe, __u64 *ctx)
{
	return submitted(ARGUMENT(struct io_kiocb *, 0));
}

PROGRAM("tp_btf/io_uring_queue_async_work", uring_queue_async_work, __u64 *ctx)
{
	struct io_kiocb *req = ARGUMENT(struct io_kiocb *, 0);
	__u32 opcode = req->opcode;

	if (!request_is_recorded(opcode) || !thread_of(current_tid()))
		return 0;
	request_emit(req, opcode, -1, POINT_io_uring_queue_async_work);
	return 0;
}

/* A request that is not recorded is complete: one that is, linked behind it, begins. */
static __always_inline void unlinked_tell(struct io_kiocb *req)
{
	struct io_kiocb *link = PEEK(req, link);
	struct thread *submitter;
	union event *e;

	if (!link || !request_is_recorded(PEEK(link, opcode)))
		return;
	submitter = thread_of(submitter_tid(req));
	if (!submitter || !submitter->kind)
		return;
	e = emit_reserve(POINT_io_uring_unlinked);
	if (!e)
		return;
	e->io_uring_unlinked.request_key = (__u64)link;
	emit_submit(e, POINT_io_uring_unlinked);
}

static __always_inline bool completed(struct io_kiocb *req)
{
	__u32 opcode = PEEK(req, opcode);
	struct thread *submitter;

	if (!request_is_recorded(opcode))
		return false;
	submitter = thread_of(submitter_tid(req));
	if (!submitter || !submitter->kind)
		return true;
	if (!request_emit(req, opcode, PEEK(req, cqe.res), POINT_io_uring_complete))
		return false;
	submitter->uring_concerned = 1;
	return true;
}

/* Runs in the submitter, or in the worker that did the request's work. */
PROGRAM("tp_btf/io_uring_complete", uring_complete, __u64 *ctx)
{
	struct io_kiocb *req = (struct io_kiocb *)ctx[1];

	if (req && !completed(req) && PEEK(req, flags) & REQ_F_LINKED)
		unlinked_tell(req);
	return 0;
}

/* Told instead of that where the ring has no room: of the ring, not of the request. */
PROGRAM("tp_btf/io_uring_cqe_overflow", uring_overflow, __u64 *ctx)
{
	struct thread *thread = thread_of(current_tid());
	union event *e;

	if (!thread || !thread->kind)
		return 0;
	e = emit_reserve(POINT_io_uring_cqe_overflow);
	if (!e)
		return 0;
	e->io_uring_cqe_overflow.completion_tag = completion_tag((void *)ctx[0], ctx[1]);
	e->io_uring_cqe_overflow.result = ctx[2];
	emit_submit(e, POINT_io_uring_cqe_overflow);
	thread->uring_concerned = 1;
	return 0;
}

struct uring_enter_context {
	__u64 common;
	int nr;
	__u64 args[6];
};

struct uring_exit_context {
	__u64 common;
	int nr;
	__s64 result;
};

static __always_inline struct file *registered_ring(__u32 place)
{
	struct task_struct *task = current_task();
	struct io_uring_task *context = PEEK(task, io_uring);
	struct file *file = NULL;

	if (!context || !bpf_core_field_exists(context->registered_rings) || place >= MOST_RINGS)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), &context->registered_rings[place]);
	return file;
}

/* The thread of the kernel that alone submits for the ring which the current thread waited at,
 * where it has been at recorded requests; 0: there is none, or it submits for other rings, too. */
static __always_inline __u32 submits_for_ring(const struct thread *thread)
{
	struct thread *submitter;
	struct task_struct *task;
	struct io_ring_ctx *ring;
	struct io_sq_data *data;
	struct file *file;
	__u32 tid;

	if (thread->rwf & ENTER_REGISTERED_RING)
		file = registered_ring(thread->ring);
	else
		file = (struct file *)file_of_descriptor(thread->ring);
	if (!file)
		return 0;
	ring = PEEK(file, private_data);
	data = PEEK(ring, sq_data);
	if (!data || PEEK(data, ctx_list.next) != PEEK(data, ctx_list.prev))
		return 0;
	task = PEEK(data, thread);
	tid = PEEK(task, pid);
	submitter = thread_of(tid);
	return submitter && submitter->uring_concerned ? tid : 0;
}

SEC("tp/syscalls/sys_enter_io_uring_enter")
int uring_enter(struct uring_enter_context *ctx)
{
	struct thread *thread = thread_admit();

	if (!thread)
		return 0;
	thread->call = CALL_IO_URING_ENTER;
	thread->rwf = ctx->args[3];
	thread->ring = ctx->args[2] && ctx->args[3] & ENTER_GETEVENTS ? ctx->args[0] : -1;
	thread->uring_concerned = 0;
	barrier();
	thread->enter_ns = bpf_ktime_get_ns();
	switches_begin(thread);
	return 0;
}

SEC("tp/syscalls/sys_exit_io_uring_enter")
int uring_exit(struct uring_exit_context *ctx)
{
	struct thread *thread = thread_of(current_tid());
	union event *e;
	__u32 polls = 0;

	if (thread && unlikely(thread_is_beside(thread)))
		beside_end();
	if (!thread || !thread->enter_ns)
		return 0;
	if (!thread->uring_concerned && thread->ring >= 0)
		polls = submits_for_ring(thread);
	if (thread->uring_concerned || polls) {
		caller_announce(thread);
		switches_end(thread);
		thread->collects = 1;
		e = emit_reserve(POINT_syscall);
		if (e) {
			e->syscall.enter_ns = thread->enter_ns;
			e->syscall.inode = 0;
			e->syscall.offset_bytes = -1;
			e->syscall.dev = 0;
			e->syscall.result = ctx->result;
			e->syscall.size_bytes = polls;
			e->syscall.tgid = thread->tgid;
			e->syscall.open_flags = 0;
			e->syscall.call = CALL_IO_URING_ENTER;
			e->syscall.rwf = thread->rwf;
			e->syscall.generation = 0;
			emit_submit(e, POINT_syscall);
		}
	}
	thread->enter_ns = 0;
	return 0;
}
