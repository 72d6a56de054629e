// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* btrfs: a file's sync begins (there is no point at its end). */
#include "work.bpf.h"

SEC("tp_btf/btrfs_sync_file")
int btrfs_sync_file(__u64 *ctx)
{
	struct inode *inode = ARGUMENT(struct file *, 0)->f_inode;
	struct thread *thread = sync_thread(inode);
	union event *e;

	if (!thread)
		return 0;
	e = emit_reserve(POINT_btrfs_sync_file);
	if (!e)
		return 0;
	e->btrfs_sync_file.inode = inode->i_ino;
	e->btrfs_sync_file.request_key = request_worked_on(thread, inode);
	e->btrfs_sync_file.dev = inode->i_sb->s_dev;
	e->btrfs_sync_file.datasync = ctx[1];
	emit_submit(e, POINT_btrfs_sync_file);
	return 0;
}
