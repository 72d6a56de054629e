// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The NFS client: files synced, the calls that write, commit or read on watched mounts, and what
 * else recorded threads call servers for amid calls of their own.
 */
#include "rpc.bpf.h"
#include "stand_in.bpf.h"
#include "work.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

enum nfs3_stable_how {
	NFS_UNSTABLE,
};

struct nfs_pgio_args {
	__u64 offset;
	__u32 count;
	enum nfs3_stable_how stable;
};

/* What is written or read past the page cache. */
struct nfs_direct_req {
	struct kiocb *iocb; /* NULL: who asks waits for it */
};

struct nfs_pgio_header {
	struct inode *inode;
	struct nfs_direct_req *dreq;
	struct rpc_task task;
	struct nfs_pgio_args args;
};

struct nfs_commitargs {
	__u64 offset;
	__u32 count;
};

struct nfs_commit_data {
	struct rpc_task task;
	struct inode *inode;
	struct nfs_direct_req *dreq;
	struct nfs_commitargs args;
};

#pragma clang attribute pop

/* Those of the tasks of such calls that may not have ended: one that comes to a place takes it. */
#define OTHERS_BITS 8
static __u64 others[1 << OTHERS_BITS];

PROGRAM("tp_btf/nfs_fsync_enter", nfs_sync_enter, __u64 *ctx)
{
	struct inode *inode = ARGUMENT(struct inode *, 0);
	struct thread *thread = inode ? sync_thread(inode) : NULL;

	if (thread)
		thread->sync_enter_ns = bpf_ktime_get_ns();
	return 0;
}

PROGRAM("tp_btf/nfs_fsync_exit", nfs_sync_exit, __u64 *ctx)
{
	struct inode *inode = ARGUMENT(struct inode *, 0);
	struct thread *thread = thread_of(current_tid());
	union event *e;

	if (!inode || !thread || !thread->sync_enter_ns)
		return 0;
	e = emit_reserve(POINT_nfs_sync_file);
	if (e) {
		e->nfs_sync_file.enter_ns = thread->sync_enter_ns;
		e->nfs_sync_file.inode = inode->i_ino;
		e->nfs_sync_file.request_key = request_worked_on(thread, inode);
		e->nfs_sync_file.dev = inode->i_sb->s_dev;
		e->nfs_sync_file.enter_transaction = 0;
		e->nfs_sync_file.exit_transaction = 0;
		e->nfs_sync_file.result = ctx[1];
		e->nfs_sync_file.datasync = DATASYNC_UNKNOWN;
		emit_submit(e, POINT_nfs_sync_file);
	}
	thread->sync_enter_ns = 0;
	return 0;
}

/* On a mount that recorded threads use, whoever writes there on their behalf. */
static __always_inline bool is_watched(struct inode *inode)
{
	return inode && watch_of(inode->i_sb->s_dev) & WATCH_FS;
}

/* The same of who begins there: what io_submit writes to is known when it returns. */
static __always_inline bool becomes_watched(struct inode *inode)
{
	struct thread *thread;

	if (!inode || is_watched(inode))
		return inode;
	thread = thread_of(current_tid());
	if (filter.device || !thread || !thread->enter_ns)
		return false;
	watch_add(inode->i_sb->s_dev, WATCH_FS);
	return true;
}

/* What waits for what is written or read past the page cache: no pointer is odd. */
static __always_inline __u64 request_asking(struct nfs_direct_req *direct)
{
	struct kiocb *iocb;

	if (!direct || !bpf_core_type_exists(struct nfs_direct_req))
		return 0;
	iocb = PEEK(direct, iocb);
	return iocb ? kiocb_key_of(iocb) : (__u64)direct + 1;
}

/* A call, with its own fields still to be filled; NULL: there was no room. */
static __always_inline union event *call_reserve(__u64 task_key, __u64 inode, __u32 dev,
						 __u64 request_key)
{
	union event *e = emit_reserve(POINT_nfs_call);

	if (!e)
		return NULL;
	e->nfs_call.call_key = task_key;
	e->nfs_call.inode = inode;
	e->nfs_call.request_key = request_key;
	e->nfs_call.dev = dev;
	return e;
}

/* The same of a file's; NULL also: it is not recorded. */
static __always_inline union event *call_on(struct inode *inode, struct nfs_direct_req *direct,
					    __u64 task_key)
{
	if (!becomes_watched(inode))
		return NULL;
	return call_reserve(task_key, inode->i_ino, inode->i_sb->s_dev, request_asking(direct));
}

static __always_inline int call_submit(union event *e, __u64 offset_bytes, __u32 size_bytes,
				       __u32 stable, __u32 operation)
{
	e->nfs_call.offset_bytes = offset_bytes;
	e->nfs_call.size_bytes = size_bytes;
	e->nfs_call.stable = stable;
	e->nfs_call.operation = operation;
	emit_submit(e, POINT_nfs_call);
	return 0;
}

PROGRAM("tp_btf/nfs_initiate_write", nfs_write_begin, __u64 *ctx)
{
	struct nfs_pgio_header *write = ARGUMENT(struct nfs_pgio_header *, 0);
	union event *e = write ? call_on(write->inode, write->dreq, (__u64)&write->task) : NULL;

	if (!e)
		return 0;
	return call_submit(e, write->args.offset, write->args.count, write->args.stable, NFS_WRITE);
}

PROGRAM("tp_btf/nfs_initiate_commit", nfs_commit_begin, __u64 *ctx)
{
	struct nfs_commit_data *commit = ARGUMENT(struct nfs_commit_data *, 0);
	union event *e = commit ? call_on(commit->inode, commit->dreq, (__u64)&commit->task) : NULL;

	if (!e)
		return 0;
	return call_submit(e, commit->args.offset, commit->args.count, 0, NFS_COMMIT);
}

/* Reached when the call has ended for good, not when it is to be made once more. */
PROGRAM("tp_btf/nfs_writeback_done", nfs_write_end, __u64 *ctx)
{
	struct rpc_task *task = ARGUMENT(struct rpc_task *, 0);
	struct nfs_pgio_header *write = ARGUMENT(struct nfs_pgio_header *, 1);

	return task && write && is_watched(write->inode) ? rpc_ended(task) : 0;
}

PROGRAM("tp_btf/nfs_commit_done", nfs_commit_end, __u64 *ctx)
{
	struct rpc_task *task = ARGUMENT(struct rpc_task *, 0);
	struct nfs_commit_data *commit = ARGUMENT(struct nfs_commit_data *, 1);

	return task && commit && is_watched(commit->inode) ? rpc_ended(task) : 0;
}

PROGRAM("tp_btf/nfs_initiate_read", nfs_read_begin, __u64 *ctx)
{
	struct nfs_pgio_header *read = ARGUMENT(struct nfs_pgio_header *, 0);
	union event *e = read ? call_on(read->inode, read->dreq, (__u64)&read->task) : NULL;

	if (!e)
		return 0;
	return call_submit(e, read->args.offset, read->args.count, 0, NFS_READ);
}

PROGRAM("tp_btf/nfs_readpage_done", nfs_read_end, __u64 *ctx)
{
	struct rpc_task *task = ARGUMENT(struct rpc_task *, 0);
	struct nfs_pgio_header *read = ARGUMENT(struct nfs_pgio_header *, 1);

	return task && read && is_watched(read->inode) ? rpc_ended(task) : 0;
}

union procedure {
	char name[8];
	__u64 number;
};

/* Whether the call is told of by the file system: that it writes, commits, or reads. */
static __always_inline bool is_told(struct rpc_task *task)
{
	const union procedure write = { "WRITE" }, commit = { "COMMIT" }, read = { "READ" };
	const union procedure read_plus = { "READ_PL" };
	union procedure called = {};

	bpf_probe_read_kernel_str(called.name, sizeof(called.name),
				  BPF_CORE_READ(task, tk_msg.rpc_proc, p_name));
	return called.number == write.number || called.number == commit.number ||
	       (filter.reads &&
		(called.number == read.number || called.number == read_plus.number));
}

static __always_inline __u64 *other_place(__u64 task_key)
{
	return &others[(task_key * 0x9e3779b97f4a7c15ull) >> (64 - OTHERS_BITS)];
}

PROGRAM("tp_btf/rpc_task_begin", nfs_other_begin, __u64 *ctx)
{
	struct thread *thread = thread_of(current_tid());
	__u64 task_key = argument_key(ctx, 0);
	__u64 *place = other_place(task_key);
	union event *e;

	/* Whose it was before. */
	if (*place == task_key)
		*place = 0;
	if (!thread || !thread->enter_ns || is_told((struct rpc_task *)task_key))
		return 0;
	e = call_reserve(task_key, thread->inode, thread->dev, 0);
	if (!e)
		return 0;
	*place = task_key;
	return call_submit(e, 0, 0, 0, NFS_OTHER);
}

/* Reached again where it is to be made once more. */
PROGRAM("tp_btf/rpc_task_end", nfs_other_end, __u64 *ctx)
{
	__u64 task_key = argument_key(ctx, 0);

	return *other_place(task_key) == task_key ? rpc_ended((struct rpc_task *)task_key) : 0;
}
