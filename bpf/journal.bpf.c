// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The phases of a jbd2 commit, on the file systems that recorded threads use. */
#include "watch.bpf.h"

static __always_inline int journal_event(__u64 *ctx, __u32 point)
{
	struct journal_s *journal = ARGUMENT(struct journal_s *, 0);
	struct transaction_s *transaction = ARGUMENT(struct transaction_s *, 1);
	union event *e;
	__u32 dev;

	if (!journal || !transaction)
		return 0;
	dev = journal->j_fs_dev->bd_dev;
	if (!(watch_of(dev) & WATCH_FS))
		return 0;
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->jbd2_start_commit.journal_key = (__u64)journal;
	e->jbd2_start_commit.dev = dev;
	e->jbd2_start_commit.transaction = transaction->t_tid;
	e->jbd2_start_commit.synchronous =
		BPF_CORE_READ_BITFIELD_PROBED(transaction, t_synchronous_commit);
	emit_submit(e, point);
	return 0;
}

/* Whoever commits is the journal's thread. */
static __always_inline void journal_thread(__u64 *ctx)
{
	struct journal_s *journal = ARGUMENT(struct journal_s *, 0);
	__u64 ids = bpf_get_current_pid_tgid();
	struct thread *thread = thread_of((__u32)ids);

	if (!journal || !(watch_of(journal->j_fs_dev->bd_dev) & WATCH_FS))
		return;
	if (!thread)
		thread = thread_add(ids, ids >> 32, THREAD_JOURNAL);
	if (thread)
		thread_announce(thread);
}

SEC("tp_btf/jbd2_start_commit")
int journal_start_commit(__u64 *ctx)
{
	journal_thread(ctx);
	return journal_event(ctx, POINT_jbd2_start_commit);
}

SEC("tp_btf/jbd2_commit_locking")
int journal_commit_locking(__u64 *ctx)
{
	return journal_event(ctx, POINT_jbd2_commit_locking);
}

SEC("tp_btf/jbd2_commit_flushing")
int journal_commit_flushing(__u64 *ctx)
{
	return journal_event(ctx, POINT_jbd2_commit_flushing);
}

SEC("tp_btf/jbd2_commit_logging")
int journal_commit_logging(__u64 *ctx)
{
	return journal_event(ctx, POINT_jbd2_commit_logging);
}

SEC("tp_btf/jbd2_end_commit")
int journal_end_commit(__u64 *ctx)
{
	return journal_event(ctx, POINT_jbd2_end_commit);
}
