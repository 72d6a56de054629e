// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What all layers share, defined once: the globals, the maps, the marking of devices. */
#include <linux/major.h>

#include "runs.bpf.h"
#include "watch.bpf.h"

const volatile __u32 ring_slots = 1;
const volatile __u32 ring_shift = 0;
const volatile bool has_cmpxchg = true;
const volatile struct filter filter = {};

/* Keeps the events' types in the object's BTF. */
union event event_anchor = {};

struct ring rings[MAX_CPUS] = {};
__u64 lost[MAX_CPUS][MAX_POINTS] = {};
struct full full[TABLES] = {};
struct full unseen[UNSEEN_KINDS] = {};
__u32 thread_owner[MAX_THREADS] = {};
struct watch watched[WATCH_SETS * WATCH_WAYS] = {};
__u32 watched_loops = 0;
struct follow follows[MAX_FOLLOWS] = {};
struct follow overlays[MAX_OVERLAYS] = {};
struct follow mounted[MAX_MOUNTED] = {};
__u32 told_tasks[TOLD_TASKS] = {};
__u64 cgroups[CGROUP_SETS * CGROUP_WAYS] = {};
struct cpu_runs cpu_runs[MAX_CPUS] = {};
__u64 named[1 << NAMED_BITS] = {};
__u64 compat_execs = 0;
struct transport transports[MAX_TRANSPORTS] = {};
struct flight flights[FLIGHT_SETS * FLIGHT_WAYS] = {};

struct slots_map slots SEC(".maps");
struct ringbuf_map ringbuf SEC(".maps");
struct threads_map threads SEC(".maps");
struct stacks_map stacks SEC(".maps");

static __always_inline struct watch *watch_mark(__u32 dev, __u32 bits)
{
	__u32 first = watch_set(dev);

	for (__u32 way = 0; way < WATCH_WAYS; way++) {
		struct watch *watch = &watched[first + way];

		if (watch->dev == dev || take(&watch->dev, dev)) {
			watch->bits |= bits;
			watched_loops |= dev >> 20 == LOOP_MAJOR;
			return watch;
		}
	}
	table_full(TABLE_DEVICES, dev);
	return NULL;
}

int watch_add(__u32 dev, __u32 bits)
{
	struct watch *watch = dev ? watch_mark(dev, bits) : NULL;
	__u32 first, count;

	if (!watch)
		return 0;
	if (watch->bits & WATCH_CUT) {
		watch->bits &= ~WATCH_CUT;
		table_full(TABLE_DEVICES, dev);
	}
	first = watch->first_follow;
	count = watch->follow_count;
	for (__u32 i = 0; i < MAX_BELOW && i < count; i++) {
		struct follow *follow = &follows[(first + i) & (MAX_FOLLOWS - 1)];

		watch_mark(follow->dev, follow->bits);
	}
	return 0;
}

int thread_serve(void)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct thread *thread;

	/* Where an interrupt comes upon no thread, none does anything. */
	if (!(__u32)ids || !current_is_kernel_thread())
		return 0;
	thread = thread_of((__u32)ids);
	if (!thread)
		thread = thread_add((__u32)ids, ids >> 32, THREAD_HELPER);
	if (!thread || thread->kind != THREAD_HELPER)
		return 0;
	thread->serves = 1;
	thread->useless_runs = 0;
	thread_announce(thread);
	return 0;
}

char licences[] SEC("license") = "Dual BSD/GPL";
