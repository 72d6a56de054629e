// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What all layers share, defined once: the globals, the maps, the marking of devices. */
#include <linux/major.h>

#include "runs.bpf.h"
#include "socket.bpf.h"
#include "stand_in.bpf.h"
#include "throttle.bpf.h"
#include "watch.bpf.h"
#include "woken.bpf.h"

/* What the recorder says of the kernel and of what is asked for.  Together: it is looked at by each
 * hit, and on one cache line but for the filter's rarer half. */
const volatile __u32 ring_slots = 1;
const volatile __u32 ring_shift = 0;
const volatile bool has_cmpxchg = true;
const volatile bool has_rdonly_cast = false;
const volatile struct type_ids type_ids = {};
const volatile bool block_rq_argument = false;
const volatile bool block_bio_argument = false;
const volatile bool block_status_argument = true;
const volatile bool switch_state_argument = true;
const volatile bool functions_stood_in = false;
const volatile bool points_stood_in = false;
const volatile struct filter filter = {};

/* .bss is one map, and on 5.10 a map takes 4 MiB at most: some of what is 0 is in .data. */

/* Keeps the events' types in the object's BTF. */
union event event_anchor = {};

struct ring rings[MAX_CPUS] = {};
__u64 lost[MAX_CPUS][MAX_POINTS] = {};
struct full full[TABLES] = {};
struct full unseen[UNSEEN_KINDS] = {};
__u32 thread_owner[MAX_THREADS] = {};
__u32 recording_over = 0;
struct watch watched[WATCH_SETS * WATCH_WAYS] = {};
__u64 watched_media[WATCH_SETS * WATCH_WAYS] = {};
__u32 watched_loops = 0;
__u64 splits_met = 0;
struct follow follows[MAX_FOLLOWS] = {};
struct follow kinds[1 << KINDS_BITS] = {};
struct follow mounted[MAX_MOUNTED] = {};
__u32 told_tasks[TOLD_TASKS] SEC(".data") = {};
__u64 chosen_cgroups[MAX_NAMES] = {};
__u64 cgroups[CGROUP_SETS * CGROUP_WAYS] = {};
struct cpu_runs cpu_runs[MAX_CPUS] = {};
struct woken woken[1 << WOKEN_BITS] = {};
struct passed passed[1 << PASSED_BITS] = {};
struct dirtier dirtiers[1 << DIRTIERS_BITS] SEC(".data") = {};
struct handlers handlers[TRANSACTIONS] = {};
__u64 named[1 << NAMED_BITS] SEC(".data") = {};
__u64 compat_execs = 0;
__u64 reads[1 << READS_BITS] = {};
__u64 reads_noted = 0;
__u64 transport_keys[MAX_TRANSPORTS] = {};
struct flight flights[FLIGHT_SETS * FLIGHT_WAYS] SEC(".data") = {};

struct slots_map slots SEC(".maps");
struct ringbuf_map ringbuf SEC(".maps");
struct threads_map threads SEC(".maps");
struct stacks_map stacks SEC(".maps");
struct marks_map marks SEC(".maps");
struct transports_map transports SEC(".maps");

/* Not static: the verifier looks at it once.  What is counted has its times before that. */
__noinline int emit_lost_count(__u32 cpu, __u32 point, __u64 count)
{
	struct ring *ring = &rings[cpu & (MAX_CPUS - 1)];
	__u64 now = bpf_ktime_get_ns();

	if (point >= MAX_POINTS)
		return 0;
	if (!*(volatile __u64 *)&ring->lost_begin_ns)
		*(volatile __u64 *)&ring->lost_begin_ns = now;
	*(volatile __u64 *)&ring->lost_end_ns = now;
	__sync_fetch_and_add(&lost[cpu & (MAX_CPUS - 1)][point], count);
	return 0;
}

int ring_wake(void)
{
	__u32 nothing = 0;

	bpf_ringbuf_output(&ringbuf, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
	return 0;
}

__u64 ring_take(__u32 cpu)
{
	struct ring *ring = &rings[cpu & (MAX_CPUS - 1)];
	__u64 head = *(volatile __u64 *)&ring->head;

	for (int attempt = 0; attempt < 4; attempt++) {
		__u64 limit = *(volatile __u64 *)&ring->tail + ring_slots, seen;

		if ((__s64)(head - limit) >= 0)
			return RING_FULL;
		*(volatile __u64 *)&ring->limit = limit;
		seen = __sync_val_compare_and_swap(&ring->head, head, head + 1);
		if (seen == head)
			return head;
		head = seen;
	}
	return RING_FULL;
}

__u64 cgroup_note(__u64 id)
{
	__u32 first = (__u32)(id * 2654435761u >> 8) % CGROUP_SETS * CGROUP_WAYS;

	for (__u32 way = 0; id && way < CGROUP_WAYS; way++) {
		__u64 *place = &cgroups[first + way];

		if (*place == id)
			break;
		if (!*place) {
			*place = id;
			break;
		}
	}
	return id;
}

/* The run so many before the last, at the time of what is told behind it: a stream is in order of
 * time.  0: that one had ended.  Not static: see watch_add. */
__noinline int run_tell(__u32 cpu, __u32 back, __u64 since_ns, __u64 now_ns)
{
	struct run *run = run_before(runs_of(cpu), back);
	__u64 end_ns = run->end_ns ? run->end_ns : now_ns;
	union event *e;

	if (!run->begin_ns || end_ns <= since_ns)
		return 0;
	if (run->told)
		return 1;
	run->told = run->end_ns != 0;
	e = emit_reserve_at(POINT_sched_ran, now_ns);
	if (!e)
		return 1;
	e->sched_ran.begin_ns = run->begin_ns;
	e->sched_ran.end_ns = end_ns;
	e->sched_ran.cgroup = run->tgid ? cgroup_note(run->cgroup) : 0;
	e->sched_ran.tgid = run->tgid;
	e->sched_ran.ran_cpu = cpu;
	if (run->tgid)
		__builtin_memcpy(e->sched_ran.process, run->process, sizeof(run->process));
	else
		__builtin_memset(e->sched_ran.process, 0, sizeof(run->process));
	emit_submit(e, POINT_sched_ran);
	return 1;
}

int runs_tell(__u32 cpu, __u64 since_ns, __u64 now_ns, __u32 skipped)
{
	for (__u32 i = 1; i < RUNS; i++) {
		if (!run_tell(cpu, i + skipped, since_ns, now_ns))
			return 0;
	}
	return 0;
}

/* The group with a quota that a task of a queue is in, or is nearest below. */
__u64 limiting_cgroup(__u64 queue_key)
{
	struct task_group *group;

	if (!bpf_core_field_exists(struct task_group, cfs_bandwidth))
		return 0;
	group = PEEK((struct cfs_rq *)queue_key, tg);
	for (int i = 0; i < MAX_GROUPS && group; i++) {
		if (PEEK(group, cfs_bandwidth.quota) != ~0ull)
			return cgroup_number(PEEK(group, css.cgroup));
		group = PEEK(group, parent);
	}
	return 0;
}

/* The recorder attaches what looks at loop devices' workers. */
static __always_inline void loops_begin(void)
{
	if (watched_loops)
		return;
	watched_loops = 1;
	if (has_cmpxchg)
		ring_wake();
}

/* The verifier looks at each turn of a loop: a loop within a function that it looks at once, and one
 * that calls it, have fewer. */
#define FOLLOWS_AT_ONCE 8

/* Where it is in the table from then on, -1: there is no room.  Not static: see watch_add. */
__noinline int watch_mark(__u32 dev, __u32 bits)
{
	__u32 first = watch_set(dev);

	for (__u32 way = 0; way < WATCH_WAYS; way++) {
		struct watch *watch = &watched[first + way];

		if (watch->dev == dev || take(&watch->dev, dev)) {
			watch->bits |= bits;
			if (dev >> 20 == LOOP_MAJOR)
				loops_begin();
			return first + way;
		}
	}
	table_full(TABLE_DEVICES, dev);
	return -1;
}

/* Some of what lies below a device.  Not static: see watch_add. */
__noinline int watch_follows(__u32 first, __u32 count)
{
	for (__u32 i = 0; i < FOLLOWS_AT_ONCE && i < count; i++) {
		struct follow *follow = &follows[(first + i) & (MAX_FOLLOWS - 1)];

		watch_mark(follow->dev, follow->bits);
	}
	return 0;
}

int watch_add(__u32 dev, __u32 bits)
{
	int place = dev ? watch_mark(dev, bits) : -1;
	struct watch *watch;
	__u32 first, count;

	if (place < 0)
		return 0;
	watch = &watched[place & (WATCH_SETS * WATCH_WAYS - 1)];
	if (watch->bits & WATCH_CUT) {
		watch->bits &= ~WATCH_CUT;
		table_full(TABLE_DEVICES, dev);
	}
	first = watch->first_follow;
	count = watch->follow_count;
	for (__u32 i = 0; i < MAX_BELOW && i < count; i += FOLLOWS_AT_ONCE)
		watch_follows(first + i, count - i);
	return 0;
}

/* One that works for others and finds no room is an event lost as well, as their writes want it. */
int thread_place(__u32 tid, __u32 tgid, __u32 kind)
{
	__u32 first = (tid & (THREAD_SETS - 1)) * THREAD_WAYS;

	for (__u32 way = 0; way < THREAD_WAYS; way++) {
		__u32 place = (first + way) & (MAX_THREADS - 1);
		struct thread *thread;

		if (!take(&thread_owner[place], tid))
			continue;
		thread = thread_at(place);
		if (!thread)
			return -1;
		thread->tgid = tgid;
		thread->kind = kind;
		return place;
	}
	table_full(TABLE_THREADS, tid);
	if (kind > THREAD_TARGET)
		emit_lost(current_cpu(), POINT_thread);
	return -1;
}

int thread_remove(__u32 tid)
{
	__u32 first = (tid & (THREAD_SETS - 1)) * THREAD_WAYS;

	for (__u32 way = 0; way < THREAD_WAYS; way++) {
		__u32 *owner = &thread_owner[(first + way) & (MAX_THREADS - 1)];
		struct thread *thread;

		if (*owner != tid)
			continue;
		thread = thread_at(first + way);
		if (thread)
			__builtin_memset(thread, 0, sizeof(*thread));
		barrier();
		*owner = 0;
	}
	return 0;
}

int task_emit(void)
{
	struct task_struct *task = current_task();
	union event *e = emit_reserve(POINT_task);

	if (!e)
		return 0;
	e->task.cgroup = 0;
	if (bpf_core_field_exists(task->cgroups))
		e->task.cgroup = cgroup_note(BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id));
	e->task.tgid = PEEK(task, tgid);
	e->task.subject_tid = PEEK(task, pid);
	task_comm(task, e->task.comm);
	process_comm(task, e->task.process);
	emit_submit(e, POINT_task);
	return 1;
}

int thread_help(__u32 serves)
{
	__u64 ids = current_ids();
	struct thread *thread;
	__u32 tid = ids;

	/* Where an interrupt comes upon no thread, none does anything. */
	if (!tid || !current_is_kernel_thread())
		return 0;
	thread = thread_of(tid);
	if (!thread) {
		thread = thread_add(tid, ids >> 32, THREAD_HELPER);
		woken_tell(tid);
		if (thread)
			thread->pooled = current_is_pooled();
	}
	if (!thread)
		return 0;
	thread->useless_runs = 0;
	if (thread->kind != THREAD_HELPER)
		return 0;
	if (serves)
		thread->serves = 1;
	/* At once: before the wake-up it is told who it is. */
	thread_announce(thread);
	return 0;
}

char licences[] SEC("license") = "Dual BSD/GPL";
