// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ext4 makes one file durable: the entry is stashed, the return emits one event. */
#include "stand_in.bpf.h"
#include "work.bpf.h"

/* The jbd2 transaction that the file's last change belongs to. */
static __always_inline __u32 ext4_transaction(struct inode *inode, __u32 datasync)
{
	struct ext4_inode_info *info;

	if (!bpf_core_type_exists(struct ext4_inode_info))
		return 0;
	info = (void *)inode - bpf_core_field_offset(struct ext4_inode_info, vfs_inode);
	return datasync ? PEEK(info, i_datasync_tid) : PEEK(info, i_sync_tid);
}

PROGRAM("tp_btf/ext4_sync_file_enter", fs_ext4_sync_enter, __u64 *ctx)
{
	struct file *file = ARGUMENT(struct file *, 0);
	struct inode *inode = file ? file->f_inode : NULL;
	__u32 datasync = ctx[1];
	struct thread *thread = inode ? sync_thread(inode) : NULL;

	if (!thread)
		return 0;
	thread->sync_datasync = datasync;
	thread->sync_transaction = ext4_transaction(inode, datasync);
	thread->sync_enter_ns = bpf_ktime_get_ns();
	return 0;
}

PROGRAM("tp_btf/ext4_sync_file_exit", fs_ext4_sync_exit, __u64 *ctx)
{
	struct inode *inode = ARGUMENT(struct inode *, 0);
	struct thread *thread = thread_of(current_tid());
	union event *e;

	if (!inode || !thread || !thread->sync_enter_ns)
		return 0;
	e = emit_reserve(POINT_ext4_sync_file);
	if (e) {
		e->ext4_sync_file.enter_ns = thread->sync_enter_ns;
		e->ext4_sync_file.inode = inode->i_ino;
		e->ext4_sync_file.request_key = request_worked_on(thread, inode);
		e->ext4_sync_file.dev = inode->i_sb->s_dev;
		e->ext4_sync_file.enter_transaction = thread->sync_transaction;
		e->ext4_sync_file.exit_transaction = ext4_transaction(inode, thread->sync_datasync);
		e->ext4_sync_file.result = ctx[1];
		e->ext4_sync_file.datasync = thread->sync_datasync;
		emit_submit(e, POINT_ext4_sync_file);
	}
	thread->sync_enter_ns = 0;
	return 0;
}

/*
 * As above where nothing describes a module's types (before Linux 36e68442d1af,
 * in v5.11): the points' records have had these members since they are there.
 * Transactions are not known.
 */
struct ext4_enter_record {
	__u64 common;
	__u32 dev;
	__u64 inode;
	__u64 parent;
	int datasync;
};

struct ext4_exit_record {
	__u64 common;
	__u32 dev;
	__u64 inode;
	int result;
};

SEC("tp/ext4/ext4_sync_file_enter")
int fs_ext4_sync_enter_blind(struct ext4_enter_record *record)
{
	struct thread *thread = sync_thread_on(record->dev);

	if (!thread)
		return 0;
	thread->sync_datasync = record->datasync;
	thread->sync_transaction = 0;
	thread->sync_enter_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp/ext4/ext4_sync_file_exit")
int fs_ext4_sync_exit_blind(struct ext4_exit_record *record)
{
	struct thread *thread = thread_of(current_tid());
	union event *e;

	if (!thread || !thread->sync_enter_ns)
		return 0;
	e = emit_reserve(POINT_ext4_sync_file);
	if (e) {
		e->ext4_sync_file.enter_ns = thread->sync_enter_ns;
		e->ext4_sync_file.inode = record->inode;
		e->ext4_sync_file.request_key = 0;
		e->ext4_sync_file.dev = record->dev;
		e->ext4_sync_file.enter_transaction = 0;
		e->ext4_sync_file.exit_transaction = 0;
		e->ext4_sync_file.result = record->result;
		e->ext4_sync_file.datasync = thread->sync_datasync;
		emit_submit(e, POINT_ext4_sync_file);
	}
	thread->sync_enter_ns = 0;
	return 0;
}
