// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XFS: a file's sync begins; its log buffers (iclogs) are submitted, done and
 * waited for.  A log write's bio lies inside its iclog, so bio_key ties the
 * log to the block layer, and (iclog_key, lsn) the waiters to the log.
 */
#include "stand_in.bpf.h"
#include "work.bpf.h"

enum xlog_iclog_state {
	XLOG_STATE_ACTIVE
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct xfs_inode {
	struct inode i_vnode;
};

struct xfs_mount {
	struct super_block *m_super;
};

struct xlog {
	struct xfs_mount *l_mp;
};

struct xlog_rec_header {
	__u64 h_lsn; /* big endian */
};

union xlog_in_core2 {
	struct xlog_rec_header hic_header;
};

struct xlog_in_core {
	struct xlog *ic_log;
	enum xlog_iclog_state ic_state;
	union xlog_in_core2 *ic_data;
	struct xlog_rec_header *ic_header;
	struct bio ic_bio;
};

#pragma clang attribute pop

static __always_inline __u64 iclog_lsn(struct xlog_in_core *iclog)
{
	__u64 lsn;

	if (bpf_core_field_exists(iclog->ic_data))
		lsn = BPF_CORE_READ(iclog, ic_data, hic_header.h_lsn);
	else
		lsn = BPF_CORE_READ(iclog, ic_header, h_lsn);
	return __builtin_bswap64(lsn);
}

static __always_inline int iclog_event(__u64 *ctx, __u32 point)
{
	struct xlog_in_core *iclog = ARGUMENT(struct xlog_in_core *, 0);
	union event *e;
	__u32 dev;

	if (!iclog)
		return 0;
	dev = iclog->ic_log->l_mp->m_super->s_dev;
	if (!(watch_of(dev) & WATCH_FS))
		return 0;
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->xlog_iclog_sync.iclog_key = (__u64)iclog;
	e->xlog_iclog_sync.bio_key = (__u64)&iclog->ic_bio;
	e->xlog_iclog_sync.lsn = iclog_lsn(iclog);
	e->xlog_iclog_sync.dev = dev;
	e->xlog_iclog_sync.state = iclog->ic_state;
	emit_submit(e, point);
	return 0;
}

PROGRAM("tp_btf/xlog_iclog_sync", xfs_iclog_sync, __u64 *ctx)
{
	return iclog_event(ctx, POINT_xlog_iclog_sync);
}

PROGRAM("tp_btf/xlog_iclog_sync_done", xfs_iclog_sync_done, __u64 *ctx)
{
	return iclog_event(ctx, POINT_xlog_iclog_sync_done);
}

PROGRAM("tp_btf/xlog_iclog_wait_on", xfs_iclog_wait_on, __u64 *ctx)
{
	return iclog_event(ctx, POINT_xlog_iclog_wait_on);
}

PROGRAM("tp_btf/xfs_file_fsync", xfs_file_fsync, __u64 *ctx)
{
	struct xfs_inode *xfs_inode = ARGUMENT(struct xfs_inode *, 0);
	struct thread *thread;
	struct inode *inode;
	union event *e;

	if (!xfs_inode)
		return 0;
	inode = &xfs_inode->i_vnode;
	thread = sync_thread(inode);
	if (!thread)
		return 0;
	e = emit_reserve(POINT_xfs_file_fsync);
	if (!e)
		return 0;
	e->xfs_file_fsync.inode = inode->i_ino;
	e->xfs_file_fsync.request_key = request_worked_on(thread, inode);
	e->xfs_file_fsync.dev = inode->i_sb->s_dev;
	e->xfs_file_fsync.datasync = DATASYNC_UNKNOWN;
	emit_submit(e, POINT_xfs_file_fsync);
	return 0;
}
