/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For how long control groups' limits have kept tasks: of the CPU, by the
 * scheduler's own account of the queue that a task is in; of a disk, by the
 * worker that hands on what was held back.
 */
#ifndef IOSTRATA_THROTTLE_BPF_H
#define IOSTRATA_THROTTLE_BPF_H

#include "task.bpf.h"
#include "work.bpf.h"

#define MAX_GROUPS 16 /* above each other */

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

struct task_struct___entity {
	struct sched_entity se;
};

#pragma clang attribute pop

/* The queue that a task is in, NULL: the kernel has no limits. */
static __always_inline struct cfs_rq *throttled_queue(struct task_struct *task)
{
	struct task_struct___entity *entity = (void *)task;

	if (!bpf_core_field_exists(entity->se.cfs_rq) ||
	    !bpf_core_field_exists(struct cfs_rq, throttle_count))
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

	thread->queue_key = (__u64)queue;
	thread->throttled_ns = queue ? throttled_ns(queue) : 0;
}

/* The number of the group with a quota that a task of a queue is in, or is nearest below; 0: not
 * known (state.bpf.c).  Not hidden: the verifier looks at it once. */
__u64 limiting_cgroup(__u64 queue_key);

/* It runs again: for how long a limit kept it, 0: none did; what it was moved to is not compared. */
static __always_inline __u64 throttle_kept_ns(const struct thread *thread, struct task_struct *task)
{
	struct cfs_rq *queue = throttled_queue(task);
	__s64 kept_ns;

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
	e->sched_throttled.pad = 0;
	e->sched_throttled.cgroup = limiting_cgroup(thread->queue_key);
	emit_submit(e, POINT_sched_throttled);
}

static __always_inline void throttle_end(const struct thread *thread, struct task_struct *task,
					 __u64 since_ns, __u64 now_ns)
{
	__u64 kept_ns = throttle_kept_ns(thread, task);

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
