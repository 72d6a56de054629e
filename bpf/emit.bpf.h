/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How an event leaves the kernel: reserve a slot in this CPU's ring, fill it,
 * submit it.
 *
 *	union event *e = emit_reserve(POINT_block_bio_queue);
 *
 *	if (!e)
 *		return 0;
 *	e->block_bio_queue.bio_key = (__u64)bio;
 *	...every field...
 *	emit_submit(e, POINT_block_bio_queue);
 *
 * A ring is plain memory shared with the recorder.  The producer takes a
 * position by compare-and-exchange (an interrupt may produce in between), the
 * recorder publishes how far it has read, and a slot is committed when its
 * `point` is not 0 and its `cpu` is the lap's number (the recorder knows the
 * CPU); so the recorder never writes to it.  A full ring refuses and counts.
 *  This costs a third of a BPF ring buffer, which remains for kernels
 * whose BPF has no compare-and-exchange (before Linux 5ffa25502b5a, in v5.12).
 */
#ifndef IOSTRATA_EMIT_BPF_H
#define IOSTRATA_EMIT_BPF_H

#include "kernel.bpf.h"
#include "events.h"
#include "shared.h"

_Static_assert(POINT_count <= MAX_POINTS, "more points than MAX_POINTS: raise it in shared.h");

extern const volatile __u32 ring_slots; /* slots a CPU, a power of two */
extern const volatile __u32 ring_shift; /* ring_slots = 1 << ring_shift */
extern const volatile bool has_cmpxchg; /* else events go through ringbuf, which only wakes */

extern struct ring rings[MAX_CPUS];
extern __u64 lost[MAX_CPUS][MAX_POINTS];
extern struct full full[TABLES];
extern struct full unseen[UNSEEN_KINDS];
extern __u64 compat_execs; /* 32-bit programs begun */

struct slots_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs * ring_slots */
	__type(key, __u32);
	__type(value, union event);
};
extern struct slots_map slots SEC(".maps");

struct ringbuf_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};
extern struct ringbuf_map ringbuf SEC(".maps");

/* Counts what is lost, and when. */
int emit_lost_count(__u32 cpu, __u32 point, __u64 count);

static __always_inline void emit_lost(__u32 cpu, __u32 point)
{
	emit_lost_count(cpu, point, 1);
}

/* A table has no room for something. */
static __always_inline void table_full(__u32 table, __u32 what)
{
	__sync_fetch_and_add(&full[table].count, 1);
	full[table].last = what;
}

/* A call of a recorded thread that no filter can decide about. */
static __always_inline void not_seen(__u32 kind, __u32 dev)
{
	__sync_fetch_and_add(&unseen[kind].count, 1);
	unseen[kind].last = dev;
}

/* Wakes the recorder, which sleeps until a good part of a ring has been filled (state.bpf.c).  Not
 * hidden: see watch_add. */
int ring_wake(void);

#define RING_FULL (~0ull)

/* Takes a position in a CPU's ring where others take some meanwhile, or the recorder has gone on;
 * RING_FULL: there is none (state.bpf.c).  Not hidden: see watch_add. */
__u64 ring_take(__u32 cpu);

/* The slot of a position, marked as this lap's and not yet committed. */
static __always_inline union event *ring_slot(__u32 cpu, __u64 position)
{
	__u32 index = (cpu << ring_shift) + (position & (ring_slots - 1));
	union event *event = bpf_map_lookup_elem(&slots, &index);

	if (event)
		*(volatile __u32 *)&event->bytes[8] = (__u32)((position >> ring_shift) + 1) << 16;
	return event;
}

static __always_inline union event *ring_reserve(__u32 cpu)
{
	struct ring *ring = &rings[cpu & (MAX_CPUS - 1)];
	__u64 head = *(volatile __u64 *)&ring->head;

	/* Its place would be in another CPU's ring. */
	if (unlikely(cpu >= MAX_CPUS))
		return NULL;
	if (unlikely((__s64)(head - *(volatile __u64 *)&ring->limit) >= 0 ||
		     __sync_val_compare_and_swap(&ring->head, head, head + 1) != head)) {
		head = ring_take(cpu);
		if (head == RING_FULL)
			return NULL;
	}
	if (unlikely(!(head & (ring_slots / WAKE_PARTS - 1))))
		ring_wake();
	return ring_slot(cpu, head);
}

/* A slot with its header filled, except for the point; NULL: refused, and counted. */
static __always_inline union event *emit_reserve_at(__u32 point, __u64 time_ns)
{
	__u32 cpu = current_cpu();
	union event *event;

	if (unlikely(!rings[cpu & (MAX_CPUS - 1)].recording))
		return NULL;
	if (has_cmpxchg)
		event = ring_reserve(cpu);
	else
		event = bpf_ringbuf_reserve(&ringbuf, sizeof(union event), 0);
	if (unlikely(!event)) {
		emit_lost(cpu, point);
		return NULL;
	}
	if (!has_cmpxchg)
		event->syscall.cpu = cpu;
	event->syscall.tid = current_tid();
	event->syscall.time_ns = time_ns ? time_ns : bpf_ktime_get_ns();
	return event;
}

static __always_inline union event *emit_reserve(__u32 point)
{
	return emit_reserve_at(point, 0);
}

static __always_inline void emit_submit(union event *event, __u32 point)
{
	if (!has_cmpxchg) {
		event->syscall.point = point;
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
		return;
	}
	barrier();
#ifdef __TARGET_ARCH_x86
	*(volatile __u16 *)&event->syscall.point = point;
#else
	/* BPF has no store-release before v6.15; an exchange orders on every CPU. */
	__sync_lock_test_and_set((__u32 *)&event->bytes[8],
				 point | (__u32)event->syscall.cpu << 16);
#endif
}

#endif
