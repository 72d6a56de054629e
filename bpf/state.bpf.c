// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What all layers share, defined once: the globals, the maps, the marking of devices. */
#include "watch.bpf.h"

const volatile __u32 ring_slots = 1;
const volatile __u32 ring_shift = 0;
const volatile bool has_cmpxchg = true;
const volatile struct filter filter = {};

/* Keeps the events' types in the object's BTF. */
union event event_anchor = {};

struct ring rings[MAX_CPUS] = {};
__u64 lost[MAX_CPUS][MAX_POINTS] = {};
__u32 thread_owner[MAX_THREADS] = {};
struct watch watched[WATCH_SETS * WATCH_WAYS] = {};
struct follow follows[MAX_FOLLOWS] = {};
__u32 follow_count = 0;

struct slots_map slots SEC(".maps");
struct ringbuf_map ringbuf SEC(".maps");
struct threads_map threads SEC(".maps");

static __always_inline void watch_mark(__u32 dev, __u32 bits)
{
	__u32 first = watch_set(dev);

	for (__u32 way = 0; way < WATCH_WAYS; way++) {
		struct watch *watch = &watched[first + way];

		if (watch->dev == dev || take(&watch->dev, dev)) {
			watch->bits |= bits;
			return;
		}
	}
}

int watch_add(__u32 dev, __u32 bits)
{
	if (!dev)
		return 0;
	watch_mark(dev, bits);
	for (__u32 i = 0; i < MAX_FOLLOWS && i < follow_count; i++) {
		if (follows[i].upper == dev)
			watch_mark(follows[i].lower, follows[i].bits);
	}
	return 0;
}

char licences[] SEC("license") = "Dual BSD/GPL";
