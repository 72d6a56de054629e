// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Ceph's store on a disk, in an OSD's process: where each transaction is.  One that writes to the
 * disk waits for its data; all of them then wait for a thread that writes many at once to the log
 * of the database that names them (RocksDB's).
 */
#include "osd.bpf.h"

static __always_inline int tell(__u64 transaction, __u32 point)
{
	struct thread *thread = osd_thread();
	union event *e;

	if (!thread)
		return 0;
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->bluestore_begin.op_key = thread->request_key;
	e->bluestore_begin.transaction_key = transaction ? object_key(thread, transaction) : 0;
	emit_submit(e, point);
	return 0;
}

/* BlueStore::_txc_add_transaction(transaction, what is added), once or several times */
SEC("uprobe")
int bluestore_begin(struct pt_regs *ctx)
{
	return tell(PT_REGS_PARM2(ctx), POINT_bluestore_begin);
}

/* BlueStore::_txc_aio_submit(transaction): only of one that writes to the disk itself */
SEC("uprobe")
int bluestore_data(struct pt_regs *ctx)
{
	return tell(PT_REGS_PARM2(ctx), POINT_bluestore_data);
}

/* BlueStore::_txc_finish_io(transaction) */
SEC("uprobe")
int bluestore_ready(struct pt_regs *ctx)
{
	return tell(PT_REGS_PARM2(ctx), POINT_bluestore_ready);
}

/* BlueStore::_txc_apply_kv(transaction, synchronously): one of those that are written next */
SEC("uprobe")
int bluestore_submit(struct pt_regs *ctx)
{
	return tell(PT_REGS_PARM2(ctx), POINT_bluestore_submit);
}

/* RocksDBStore::submit_transaction_sync(transaction): the database's own */
SEC("uretprobe")
int bluestore_synced(struct pt_regs *ctx)
{
	(void)ctx;
	return tell(0, POINT_bluestore_synced);
}

/* BlueStore::_txc_committed_kv(transaction) */
SEC("uprobe")
int bluestore_done(struct pt_regs *ctx)
{
	return tell(PT_REGS_PARM2(ctx), POINT_bluestore_done);
}
