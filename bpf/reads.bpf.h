/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads of data that recorded calls wait for: of what a write changes a part
 * of, or copies.  They are noted by their bios, as requests do not tell for
 * whom they are, and all others are no matter (but with --who).
 */
#ifndef IOSTRATA_READS_BPF_H
#define IOSTRATA_READS_BPF_H

#include "watch.bpf.h"

/* A read of a file's data, of which no write consists: it only may be ahead of one. */
static __always_inline bool is_data_read(__u32 flags)
{
	return (flags & REQ_OP_MASK) == REQ_OP_READ && !(flags & REQ_META);
}

extern __u64 reads[1 << READS_BITS]; /* bios that recorded calls read with */
extern __u64 reads_noted;            /* how many of them are there */

static __always_inline __u64 *read_place(__u64 bio_key)
{
	return &reads[(bio_key >> 6) & ((1 << READS_BITS) - 1)];
}

static __always_inline bool read_is_noted(struct bio *bio)
{
	__u64 bio_key;

	if (!reads_noted)
		return false;
	bio_key = pointer_key(bio);
	return *read_place(bio_key) == bio_key;
}

/* A recorded call reads what it is to change a part of (or to copy), unless it is one for many
 * requests, of which others may read. */
static __always_inline bool reads_for_call(const struct thread *thread)
{
	if (thread->kind == THREAD_WORKER)
		return true;
	return thread->enter_ns && thread->kind != THREAD_HELPER &&
	       (thread->call < CALL_IO_SUBMIT || thread->call > CALL_IO_URING_ENTER);
}

static __always_inline void read_keep(struct bio *bio)
{
	__u64 bio_key = pointer_key(bio), *place = read_place(bio_key);

	if (!*place)
		__sync_fetch_and_add(&reads_noted, 1);
	*place = bio_key;
}

/* Whether a bio reads data for a recorded call of the current thread, which is noted then. */
static __always_inline bool read_note(struct bio *bio)
{
	struct thread *thread;

	if (!is_data_read(bio->bi_opf))
		return false;
	thread = thread_of(current_tid());
	if (!thread || !reads_for_call(thread))
		return false;
	read_keep(bio);
	return true;
}

/* "mdX_raid" as one number. */
#define MAPPED_ARRAY 0x646961725f58646dull

/* Whether it is the thread of an array that device mapper has (dm-raid): md has no disk for that, by
 * which it would tell what it hands on, and none to name it by (mdname). */
static __always_inline bool current_is_mapped_array(void)
{
	char comm[16] = {};

	bpf_get_current_comm(comm, sizeof(comm));
	return *(__u64 *)comm == MAPPED_ARRAY;
}

/* The same, of what a worker reads from a disk below another one for that itself: device mapper has
 * what it knows of its blocks there, and copies them, and reads what it needs for a parity. */
static __always_inline bool read_note_own(struct bio *bio, __u32 dev)
{
	if (!is_data_read(bio->bi_opf) || !current_is_kernel_thread())
		return false;
	if (!(watch_of(dev) & WATCH_BELOW) || !(current_is_pooled() || current_is_mapped_array()))
		return false;
	read_keep(bio);
	return true;
}

/* The same, of one that was handed on to a disk below: md's own thread reads what it needs to write,
 * and what others read there comes by their own threads. */
static __always_inline bool read_note_below(struct bio *bio)
{
	if (!is_data_read(bio->bi_opf) || !current_is_kernel_thread())
		return read_note(bio);
	read_keep(bio);
	return true;
}

/* It is complete. */
static __always_inline void read_forget(__u32 flags, struct bio *bio)
{
	__u64 bio_key, *place;

	if (!is_data_read(flags) || !reads_noted)
		return;
	bio_key = pointer_key(bio);
	place = read_place(bio_key);
	if (*place != bio_key)
		return;
	*place = 0;
	__sync_fetch_and_add(&reads_noted, -1);
}

#endif
