// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * btrfs: a file's sync begins (older kernels have no point at its end), or that of the whole file
 * system: for a recorded thread, or beside one.
 */
#include "beside.bpf.h"
#include "inode.bpf.h"
#include "stand_in.bpf.h"
#include "task.bpf.h"
#include "work.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct btrfs_fs_info {
	struct super_block *sb;
};

#pragma clang attribute pop

static __always_inline void beside_tell(const struct thread *thread)
{
	union event *e = emit_reserve(POINT_btrfs_beside);

	if (!e)
		return;
	e->btrfs_beside.enter_ns = thread->beside_ns;
	e->btrfs_beside.dev = thread->dev;
	e->btrfs_beside.pad = 0;
	emit_submit(e, POINT_btrfs_beside);
}

int beside_begin(__u32 dev)
{
	__u64 ids = current_ids();
	struct thread *thread = thread_of((__u32)ids);

	/* Threads of the kernel's own are helpers. */
	if (!(watch_of(dev) & WATCH_FS) || current_is_kernel_thread() || recording_over)
		return 0;
	if (thread && thread_is_beside(thread)) {
		/* A worker of io_uring is at the next request. */
		if (!(CURRENT(flags) & PF_IO_WORKER))
			return 0;
		beside_tell(thread);
	} else if (thread && thread_at_work(thread)) {
		return 0;
	}
	if (!thread)
		thread = thread_add(ids, ids >> 32, THREAD_BESIDE);
	if (!thread)
		return 0;
	thread_tell(thread);
	thread->dev = dev;
	/* Which are not counted outside of calls (switches.bpf.h). */
	thread->switches = 0;
	thread->beside_ns = bpf_ktime_get_ns();
	barrier();
	thread->call = CALL_BESIDE;
	return 0;
}

int beside_end(void)
{
	__u32 tid = current_tid();
	struct thread *thread = thread_of(tid);

	if (!thread)
		return 0;
	beside_tell(thread);
	thread->call = 0;
	thread->switches = 0;
	if (thread->kind == THREAD_BESIDE)
		thread_remove(tid);
	return 0;
}

static __always_inline int btrfs_sync(__u64 *ctx)
{
	struct file *file = ARGUMENT(struct file *, 0);
	struct inode *inode = file ? file->f_inode : NULL;
	struct thread *thread = inode ? sync_thread(inode) : NULL;
	union event *e;

	if (!thread) {
		if (inode)
			beside_begin(inode->i_sb->s_dev);
		return 0;
	}
	e = emit_reserve(POINT_btrfs_sync_file);
	if (!e)
		return 0;
	e->btrfs_sync_file.inode = inode_number(pointer_key(inode));
	e->btrfs_sync_file.request_key = request_worked_on(thread, inode);
	e->btrfs_sync_file.dev = inode->i_sb->s_dev;
	e->btrfs_sync_file.datasync = ctx[1];
	emit_submit(e, POINT_btrfs_sync_file);
	return 0;
}

PROGRAM("tp_btf/btrfs_sync_file", btrfs_sync_file, __u64 *ctx)
{
	return btrfs_sync(ctx);
}

/* The same point, since it has one at the end beside it. */
PROGRAM("tp_btf/btrfs_sync_file_enter", btrfs_sync_file_enter, __u64 *ctx)
{
	return btrfs_sync(ctx);
}

static __always_inline int btrfs_commits(struct btrfs_fs_info *fs_info)
{
	struct super_block *sb = fs_info ? PEEK(fs_info, sb) : NULL;

	/* Older kernels have something else there (btrfs_transaction_commit's root). */
	if (sb && PEEK(sb, s_fs_info) == fs_info)
		beside_begin(PEEK(sb, s_dev));
	return 0;
}

/* Of syncfs, or sync: the transaction is committed. */
PROGRAM("tp_btf/btrfs_sync_fs", btrfs_sync_fs, __u64 *ctx)
{
	return btrfs_commits(ARGUMENT(struct btrfs_fs_info *, 0));
}

/* It has been, by who may well go on to the next one, in a call that nobody has seen begin (the
 * balance of a file system takes hours). */
PROGRAM("tp_btf/btrfs_transaction_commit", btrfs_transaction_commit, __u64 *ctx)
{
	return btrfs_commits(ARGUMENT(struct btrfs_fs_info *, 0));
}
