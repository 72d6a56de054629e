// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Who makes pages of watched file systems dirty: only with --who. */
#include "data.bpf.h"
#include "stand_in.bpf.h"
#include "task.bpf.h"
#include "watch.bpf.h"

static __always_inline int dirtied(struct address_space *mapping)
{
	struct dirtier *dirtier;
	__u64 inode_key;

	if (!mapping || !mapping->host || !(watch_of(mapping->host->i_sb->s_dev) & WATCH_FS))
		return 0;
	task_tell();
	inode_key = (__u64)PEEK(mapping, host);
	dirtier = dirtier_of(inode_key);
	dirtier->tid = current_tid();
	dirtier->inode_key = inode_key;
	return 0;
}

PROGRAM("tp_btf/writeback_dirty_folio", data_dirty_folio, __u64 *ctx)
{
	return dirtied(ARGUMENT(struct address_space *, 1));
}

/* As above before Linux 203a31516616 (in v5.18). */
PROGRAM("tp_btf/writeback_dirty_page", data_dirty_page, __u64 *ctx)
{
	return dirtied(ARGUMENT(struct address_space *, 1));
}
