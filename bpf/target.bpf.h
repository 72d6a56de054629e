/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What targets in the kernel have in common: a command's file. */
#ifndef IOSTRATA_TARGET_BPF_H
#define IOSTRATA_TARGET_BPF_H

#include <asm/fcntl.h>

#include "inode.bpf.h"
#include "watch.bpf.h"

/* Which file a command that reads is carried out on, NULL: one that is not known. */
static __always_inline void target_file_tell(struct file *file, __u64 request_key, bool direct)
{
	struct inode *inode = file ? PEEK(file, f_inode) : NULL;
	bool is_node = inode && (PEEK(inode, i_mode) & S_IFMT) == S_IFBLK;
	union event *e = emit_reserve(POINT_target_file);

	if (!e)
		return;
	e->target_file.request_key = request_key;
	e->target_file.inode = inode && !is_node ? inode_number((__u64)inode) : 0;
	e->target_file.dev = 0;
	if (inode)
		e->target_file.dev =
			is_node ? PEEK(inode, i_rdev) : BPF_CORE_READ(inode, i_sb, s_dev);
	e->target_file.open_flags = direct ? O_DIRECT : 0;
	emit_submit(e, POINT_target_file);
}

#endif
