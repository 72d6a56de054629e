// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The phases of a jbd2 commit, on the file systems that recorded threads use. */
#include "watch.bpf.h"

struct commit {
	__u64 journal_key;
	__u32 dev;
	__u32 transaction;
	bool synchronous;
};

/* Whoever commits is the journal's thread. */
static __always_inline void journal_thread(void)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct thread *thread = thread_of((__u32)ids);

	if (!thread)
		thread = thread_add(ids, ids >> 32, THREAD_JOURNAL);
	if (!thread)
		return;
	if (thread->kind == THREAD_HELPER) {
		/* It was met when it did something else. */
		thread->kind = THREAD_JOURNAL;
		thread->announced = 0;
	}
	thread_announce(thread);
}

static __always_inline int commit_emit(const struct commit *commit, __u32 point)
{
	union event *e;

	if (!(watch_of(commit->dev) & WATCH_FS))
		return 0;
	if (point == POINT_jbd2_start_commit)
		journal_thread();
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->jbd2_start_commit.journal_key = commit->journal_key;
	e->jbd2_start_commit.dev = commit->dev;
	e->jbd2_start_commit.transaction = commit->transaction;
	e->jbd2_start_commit.synchronous = commit->synchronous;
	emit_submit(e, point);
	return 0;
}

static __always_inline int journal_event(__u64 *ctx, __u32 point)
{
	struct journal_s *journal = ARGUMENT(struct journal_s *, 0);
	struct transaction_s *transaction = ARGUMENT(struct transaction_s *, 1);
	struct commit commit;

	if (!journal || !transaction)
		return 0;
	commit.journal_key = (__u64)journal;
	commit.dev = journal->j_fs_dev->bd_dev;
	commit.transaction = transaction->t_tid;
	commit.synchronous = BPF_CORE_READ_BITFIELD_PROBED(transaction, t_synchronous_commit);
	return commit_emit(&commit, point);
}

SEC("tp_btf/jbd2_start_commit")
int journal_start_commit(__u64 *ctx)
{
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

/*
 * As above where nothing describes a module's types (before Linux 36e68442d1af,
 * in v5.11): the points' records have had these members since they are there.
 * A file system has one journal, so its device is the journal's key.
 */
struct commit_record {
	__u64 common;
	__u32 dev;
	char synchronous;
	__u32 transaction;
};

static __always_inline int record_event(const struct commit_record *record, __u32 point)
{
	const struct commit commit = {
		.journal_key = record->dev,
		.dev = record->dev,
		.transaction = record->transaction,
		.synchronous = record->synchronous,
	};

	return commit_emit(&commit, point);
}

SEC("tp/jbd2/jbd2_start_commit")
int journal_start_commit_blind(struct commit_record *record)
{
	return record_event(record, POINT_jbd2_start_commit);
}

SEC("tp/jbd2/jbd2_commit_locking")
int journal_commit_locking_blind(struct commit_record *record)
{
	return record_event(record, POINT_jbd2_commit_locking);
}

SEC("tp/jbd2/jbd2_commit_flushing")
int journal_commit_flushing_blind(struct commit_record *record)
{
	return record_event(record, POINT_jbd2_commit_flushing);
}

SEC("tp/jbd2/jbd2_commit_logging")
int journal_commit_logging_blind(struct commit_record *record)
{
	return record_event(record, POINT_jbd2_commit_logging);
}

SEC("tp/jbd2/jbd2_end_commit")
int journal_end_commit_blind(struct commit_record *record)
{
	return record_event(record, POINT_jbd2_end_commit);
}
