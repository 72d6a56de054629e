// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* btrfs: a file's sync begins (older kernels have no point at its end). */
#include "inode.bpf.h"
#include "work.bpf.h"

static __always_inline int btrfs_sync(__u64 *ctx)
{
	struct file *file = ARGUMENT(struct file *, 0);
	struct inode *inode = file ? file->f_inode : NULL;
	struct thread *thread = inode ? sync_thread(inode) : NULL;
	union event *e;

	if (!thread)
		return 0;
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

SEC("tp_btf/btrfs_sync_file")
int btrfs_sync_file(__u64 *ctx)
{
	return btrfs_sync(ctx);
}

/* The same point, since it has one at the end beside it. */
SEC("tp_btf/btrfs_sync_file_enter")
int btrfs_sync_file_enter(__u64 *ctx)
{
	return btrfs_sync(ctx);
}
