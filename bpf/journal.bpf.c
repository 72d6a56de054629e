// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The phases of a jbd2 commit, on the file systems that recorded threads use; and whose handles
 * changed what it writes. */
#include "stand_in.bpf.h"
#include "task.bpf.h"
#include "watch.bpf.h"
#include "woken.bpf.h"

extern struct handlers handlers[TRANSACTIONS];

/* A journal has a running and a committing transaction. */
static __always_inline struct handlers *handlers_of(__u32 dev, __u32 transaction)
{
	__u32 place = DEV_HASH(dev, 12) << 1 | (transaction & 1);

	/* The bound comes last: Linux 6.1's verifier knows none of what was or-ed. */
	barrier_var(place);
	return &handlers[place % TRANSACTIONS];
}

static __always_inline __u64 handlers_key(__u32 dev, __u32 transaction)
{
	return (__u64)dev << 32 | transaction;
}

/* Adds up what each thread's handles have changed of a transaction. */
static __always_inline void handle_note(struct handlers *own, __u64 key, __u32 blocks)
{
	__u32 tid = current_tid(), place = 0;

	if (own->key != key) {
		/* Whose commit was not seen: another's may have the place, too. */
		__builtin_memset(own, 0, sizeof(*own));
		own->key = key;
	}
	while (place < MAX_HANDLERS && own->tid[place] != tid && !take(&own->tid[place], tid))
		place++;
	if (place <= MAX_HANDLERS)
		__sync_fetch_and_add(&own->block_count[place], blocks);
}

static __always_inline void handlers_tell(__u32 dev, __u32 transaction)
{
	struct handlers *own = handlers_of(dev, transaction);

	if (own->key != handlers_key(dev, transaction))
		return;
	for (__u32 place = 0; place <= MAX_HANDLERS; place++) {
		union event *e;

		if (!own->block_count[place])
			continue;
		e = emit_reserve(POINT_jbd2_handles);
		if (!e)
			continue;
		e->jbd2_handles.dev = dev;
		e->jbd2_handles.transaction = transaction;
		e->jbd2_handles.subject_tid = place < MAX_HANDLERS ? own->tid[place] : 0;
		e->jbd2_handles.block_count = own->block_count[place];
		emit_submit(e, POINT_jbd2_handles);
	}
	__builtin_memset(own, 0, sizeof(*own));
}

/* A handle has ended; what it may have changed anew is in its transaction now. */
PROGRAM("tp_btf/jbd2_handle_stats", journal_handle, __u64 *ctx)
{
	__u32 dev = ctx[0], transaction = ctx[1];
	int blocks = ctx[7];

	if (blocks <= 0 || !(watch_of(dev) & WATCH_FS))
		return 0;
	task_tell();
	handle_note(handlers_of(dev, transaction), handlers_key(dev, transaction), blocks);
	return 0;
}

/* The record has had these members since the point is there (Linux aa75f4d3daae, in v5.10). */
struct fast_commit_record {
	__u64 common;
	__u32 dev;
	int block_count;
	int status; /* 0: it has been made; else a full commit is, or none is needed */
};

/* Whoever syncs makes it itself. */
SEC("tp/ext4/ext4_fc_commit_stop")
int journal_fast_commit(struct fast_commit_record *record)
{
	union event *e;

	if (record->status || record->block_count <= 0 || !(watch_of(record->dev) & WATCH_FS))
		return 0;
	e = emit_reserve(POINT_ext4_fc_commit_stop);
	if (!e)
		return 0;
	e->ext4_fc_commit_stop.dev = record->dev;
	e->ext4_fc_commit_stop.block_count = record->block_count;
	emit_submit(e, POINT_ext4_fc_commit_stop);
	return 0;
}

struct commit {
	__u64 journal_key;
	__u32 dev;
	__u32 transaction;
	bool synchronous;
};

/* Whoever commits is the journal's thread. */
static __always_inline void journal_thread(void)
{
	__u64 ids = current_ids();
	struct thread *thread = thread_of((__u32)ids);

	if (!thread) {
		thread = thread_add(ids, ids >> 32, THREAD_JOURNAL);
		woken_tell(ids);
	}
	if (!thread)
		return;
	if (thread->kind == THREAD_HELPER) {
		/* It was met when it did something else. */
		thread_becomes(thread, THREAD_JOURNAL);
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
	/* All its handles have ended. */
	if (point == POINT_jbd2_commit_flushing && filter.who)
		handlers_tell(commit->dev, commit->transaction);
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
	commit.dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
	commit.transaction = transaction->t_tid;
	commit.synchronous = BPF_CORE_READ_BITFIELD_PROBED(transaction, t_synchronous_commit);
	return commit_emit(&commit, point);
}

PROGRAM("tp_btf/jbd2_start_commit", journal_start_commit, __u64 *ctx)
{
	return journal_event(ctx, POINT_jbd2_start_commit);
}

PROGRAM("tp_btf/jbd2_commit_locking", journal_commit_locking, __u64 *ctx)
{
	return journal_event(ctx, POINT_jbd2_commit_locking);
}

PROGRAM("tp_btf/jbd2_commit_flushing", journal_commit_flushing, __u64 *ctx)
{
	return journal_event(ctx, POINT_jbd2_commit_flushing);
}

PROGRAM("tp_btf/jbd2_commit_logging", journal_commit_logging, __u64 *ctx)
{
	return journal_event(ctx, POINT_jbd2_commit_logging);
}

PROGRAM("tp_btf/jbd2_end_commit", journal_end_commit, __u64 *ctx)
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
