/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For how long limits have kept tasks: control groups' of the CPU, by the
 * scheduler's own account of the queue that a task is in; a task's own runtime
 * (SCHED_DEADLINE), by the timer that gives it the next; of a disk, by the
 * worker that hands on what was held back.
 */
#ifndef IOSTRATA_THROTTLE_BPF_H
#define IOSTRATA_THROTTLE_BPF_H

#include "task.bpf.h"
#include "work.bpf.h"

#define MAX_GROUPS 16 /* above each other */
#define MAX_RT_PRIO 100
#define OWN_RUNTIME 1 /* in place of a queue: no group's quota keeps it */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq {
	__u64 clock;
	__u64 clock_task;
	__u64 clock_pelt;
	unsigned long lost_idle_time;
};

struct cfs_bandwidth {
	__u64 quota; /* all bits set: none */
};

struct task_group {
	struct cgroup_subsys_state css;
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
};

/* Its parent's queues are throttled with it. */
struct cfs_rq {
	struct rq *rq;
	struct task_group *tg;
	/* since Linux 677ea015f231 (in v6.6): only while somebody waits in it */
	__u64 throttled_clock_self;
	__u64 throttled_clock_self_time;
	/* since Linux 64eaf50731ac (in v5.19) */
	__u64 throttled_clock_pelt;
	__u64 throttled_clock_pelt_time;
	int throttle_count;
};

struct cfs_rq___before {
	__u64 throttled_clock_task;
	__u64 throttled_clock_task_time;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct hrtimer {
	__s64 _softexpires;
};

struct sched_dl_entity {
	unsigned int dl_throttled : 1;
	struct hrtimer dl_timer;
};

struct task_struct___entity {
	int prio; /* of SCHED_DEADLINE below 0, of threads that quotas are for MAX_RT_PRIO and more */
	struct sched_entity se;
	struct sched_dl_entity dl;
};

#pragma clang attribute pop

/* Whether what keeps a task is its own runtime, and no group's quota. */
static __always_inline bool has_own_runtime(struct task_struct *task)
{
	return ((struct task_struct___entity *)task)->prio < 0;
}

/* When a task of SCHED_DEADLINE got, or will get, its next runtime last: start_dl_timer. */
static __always_inline __u64 replenished_ns(struct task_struct *task)
{
	struct task_struct___entity *entity = (void *)task;

	return bpf_core_field_exists(entity->dl.dl_timer._softexpires)
		       ? entity->dl.dl_timer._softexpires
		       : 0;
}

/* The same, if it has runtime: so that timer is of no matter to it.  0: it waits for that. */
static __always_inline __u64 replenished_before(struct task_struct *task)
{
	struct sched_dl_entity *entity = &((struct task_struct___entity *)task)->dl;

	return BPF_CORE_READ_BITFIELD(entity, dl_throttled) ? 0 : replenished_ns(task);
}

/* The queue that a task is in, NULL: no quota keeps it. */
static __always_inline struct cfs_rq *throttled_queue(struct task_struct *task)
{
	struct task_struct___entity *entity = (void *)task;

	if (!bpf_core_field_exists(entity->se.cfs_rq) ||
	    !bpf_core_field_exists(struct cfs_rq, throttle_count) || entity->prio < MAX_RT_PRIO)
		return NULL;
	return entity->se.cfs_rq;
}

/* ns for which a queue has been throttled so far, until now. */
static __always_inline __u64 throttled_ns(struct cfs_rq *queue)
{
	struct cfs_rq___before *before = (void *)queue;
	__u64 since;

	if (bpf_core_field_exists(queue->throttled_clock_self_time)) {
		since = queue->throttled_clock_self;
		return queue->throttled_clock_self_time + (since ? queue->rq->clock - since : 0);
	}
	if (bpf_core_field_exists(queue->throttled_clock_pelt_time)) {
		since = queue->throttle_count ? queue->rq->clock_pelt - queue->rq->lost_idle_time -
							queue->throttled_clock_pelt
					      : 0;
		return queue->throttled_clock_pelt_time + since;
	}
	if (!bpf_core_field_exists(before->throttled_clock_task_time))
		return 0;
	since = queue->throttle_count ? queue->rq->clock_task - before->throttled_clock_task : 0;
	return before->throttled_clock_task_time + since;
}

/* From now on the thread can run, but for a limit. */
static __always_inline void throttle_begin(struct thread *thread, struct task_struct *task)
{
	struct cfs_rq *queue = throttled_queue(task);

	if (unlikely(has_own_runtime(task))) {
		thread->queue_key = OWN_RUNTIME;
		thread->throttled_ns = replenished_before(task);
		return;
	}
	thread->queue_key = (__u64)queue;
	thread->throttled_ns = queue ? throttled_ns(queue) : 0;
}

/* The number of the group with a quota that a task of a queue is in, or is nearest below; 0: not
 * known (state.bpf.c).  Not hidden: the verifier looks at it once. */
__u64 limiting_cgroup(__u64 queue_key);

/* Whose runtime was used up when it could run, or (dl_check_constrained_dl) when it was then put into
 * its queue: until the timer that was set then, or who let it go before. */
static __always_inline __u64 own_kept_ns(const struct thread *thread, struct task_struct *task,
					 __u64 since_ns, __u64 now_ns)
{
	__u64 until_ns = replenished_ns(task);

	if (!has_own_runtime(task) || until_ns == thread->throttled_ns || until_ns <= since_ns)
		return 0;
	return (until_ns < now_ns ? until_ns : now_ns) - since_ns;
}

/* It runs again: for how long a limit kept it, 0: none did; what it was moved to is not compared. */
static __always_inline __u64 throttle_kept_ns(const struct thread *thread, struct task_struct *task,
					      __u64 since_ns, __u64 now_ns)
{
	struct cfs_rq *queue;
	__s64 kept_ns;

	if (unlikely(thread->queue_key == OWN_RUNTIME))
		return own_kept_ns(thread, task, since_ns, now_ns);
	queue = throttled_queue(task);
	if (!queue || thread->queue_key != (__u64)queue)
		return 0;
	kept_ns = throttled_ns(queue) - thread->throttled_ns;
	return kept_ns > 0 ? kept_ns : 0;
}

/* Seldom: out of the way of what is not limited. */
static __noinline void throttle_tell(const struct thread *thread, __u32 tid, __u64 since_ns,
				     __u64 kept_ns, __u64 now_ns)
{
	union event *e = emit_reserve_at(POINT_sched_throttled, now_ns);

	if (!e)
		return;
	e->sched_throttled.since_ns = since_ns;
	e->sched_throttled.throttled_ns = kept_ns;
	e->sched_throttled.subject_tid = tid;
	e->sched_throttled.own = thread->queue_key == OWN_RUNTIME;
	e->sched_throttled.cgroup = e->sched_throttled.own ? 0 : limiting_cgroup(thread->queue_key);
	emit_submit(e, POINT_sched_throttled);
}

static __always_inline void throttle_end(const struct thread *thread, struct task_struct *task,
					 __u64 since_ns, __u64 now_ns)
{
	__u64 kept_ns = throttle_kept_ns(thread, task, since_ns, now_ns);

	if (unlikely(kept_ns))
		throttle_tell(thread, task->pid, since_ns, kept_ns, now_ns);
}

/* "kthrotld", as it is in memory: its worker hands on what blk-throttle held back. */
static __always_inline bool current_dispatches_throttled(void)
{
	char wanted[8] = { 'k', 't', 'h', 'r', 'o', 't', 'l', 'd' };
	struct task_struct *task = current_task();
	struct workqueue_struct *queue;
	struct worker *worker;
	char name[16] = {};

	if (!(PEEK(task, flags) & PF_WQ_WORKER))
		return false;
	worker = current_worker(task);
	queue = BPF_CORE_READ(worker, current_pwq, wq);
	bpf_core_read_str(name, sizeof(name), &queue->name);
	return *(__u64 *)name == *(__u64 *)wanted && !name[8];
}

#endif
