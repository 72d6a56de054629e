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
	struct cfs_rq **cfs_rq; /* one a CPU */
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
	/* until that */
	__u64 throttled_clock_task;
	__u64 throttled_clock_task_time;
	int throttle_count;
};

#pragma clang attribute pop

/* Whether what keeps a task is its own runtime, and no group's quota. */
static __always_inline bool has_own_runtime(struct task_struct *task)
{
	return task->prio < 0;
}

/* When a task of SCHED_DEADLINE got, or will get, its next runtime last: start_dl_timer. */
static __always_inline __u64 replenished_ns(struct task_struct *task)
{
	return bpf_core_field_exists(task->dl.dl_timer._softexpires)
		       ? task->dl.dl_timer._softexpires
		       : 0;
}

/* The same, if it has runtime: so that timer is of no matter to it.  0: it waits for that. */
static __always_inline __u64 replenished_before(struct task_struct *task)
{
	struct sched_dl_entity *entity = &task->dl;

	return BPF_CORE_READ_BITFIELD(entity, dl_throttled) ? 0 : replenished_ns(task);
}

/* The queue that a task is in, or would be if it were not real-time.  To be asked for once, before
 * anything else of the task (see bio_dev_at_once). */
static __always_inline struct cfs_rq *queue_of(struct task_struct *task)
{
	struct cfs_rq *queue;

	if (!bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(struct cfs_rq, throttle_count))
		return NULL;
	queue = task->se.cfs_rq;
	barrier_var(queue);
	return queue;
}

/* Whether a task's queue has a quota to keep it: of a kernel that tells. */
static __always_inline bool has_quota(struct task_struct *task, const struct cfs_rq *queue)
{
	return queue && task->prio >= MAX_RT_PRIO;
}

#define OF_OWN_CPU(pointer, member) ((pointer)->member)

/* ns for which a queue has been throttled so far, until now; READ: how a field of it is read. */
#define THROTTLED_NS(queue, READ)                                                                 \
	({                                                                                        \
		struct rq *rq = READ(queue, rq);                                                  \
		__u64 so_far = 0, since;                                                          \
                                                                                                  \
		if (bpf_core_field_exists((queue)->throttled_clock_self_time)) {                  \
			so_far = READ(queue, throttled_clock_self_time);                          \
			since = READ(queue, throttled_clock_self);                                \
			so_far += since ? READ(rq, clock) - since : 0;                            \
		} else if (bpf_core_field_exists((queue)->throttled_clock_pelt_time)) {           \
			so_far = READ(queue, throttled_clock_pelt_time);                          \
			if (READ(queue, throttle_count))                                          \
				so_far += READ(rq, clock_pelt) - READ(rq, lost_idle_time) -       \
					  READ(queue, throttled_clock_pelt);                      \
		} else if (bpf_core_field_exists((queue)->throttled_clock_task_time)) {           \
			so_far = READ(queue, throttled_clock_task_time);                          \
			if (READ(queue, throttle_count))                                          \
				so_far +=                                                         \
					READ(rq, clock_task) - READ(queue, throttled_clock_task); \
		}                                                                                 \
		so_far;                                                                           \
	})

/* Of the queue of this CPU, or of one that is locked. */
static __always_inline __u64 throttled_ns(struct cfs_rq *queue)
{
	return THROTTLED_NS(queue, OF_OWN_CPU);
}

/* Of any queue.  Seldom. */
static __noinline __u64 throttled_elsewhere_ns(__u64 queue_key)
{
	struct cfs_rq *queue = (void *)queue_key;

	return queue ? THROTTLED_NS(queue, PEEK) : 0;
}

/* How often a task was put into another CPU's queue. */
static __always_inline __u32 migrations(struct task_struct *task)
{
	return task->se.nr_migrations;
}

/* From now on the thread can run, but for a limit.  queue: the task's. */
static __always_inline void throttle_begin(struct thread *thread, struct task_struct *task,
					   struct cfs_rq *queue)
{
	if (unlikely(has_own_runtime(task))) {
		thread->queue_key = OWN_RUNTIME;
		thread->throttled_ns = replenished_before(task);
		return;
	}
	if (!has_quota(task, queue))
		queue = NULL;
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

/* Who was moved once while it could run: for how long a limit kept it before, at least.  That other
 * queue may have been throttled again since, but for no longer than the task has been in this one. */
static __noinline __u64 kept_before_ns(const struct thread *thread, struct task_struct *task,
				       struct cfs_rq *queue, __u64 waited_ns)
{
	struct cfs_rq *before = (void *)thread->queue_key;
	__u64 since, here_ns;
	__s64 kept_ns, most_ns;

	if (!before || !bpf_core_field_exists(task->sched_info.last_queued) ||
	    PEEK(before, tg) != queue->tg)
		return 0;
	since = task->sched_info.last_queued;
	here_ns = queue->rq->clock - since;
	if (!since || here_ns >= waited_ns)
		return 0;
	kept_ns = throttled_elsewhere_ns(thread->queue_key) - thread->throttled_ns - here_ns;
	if (kept_ns <= 0)
		return 0;
	most_ns = waited_ns - here_ns;
	return kept_ns < most_ns ? kept_ns : most_ns;
}

/* It runs again, or is moved: for how long a limit has kept it, 0: none did, or it is not known, as
 * of who was let go and put into another queue then.  queue: the task's. */
static __always_inline __u64 throttle_kept_ns(const struct thread *thread, struct task_struct *task,
					      struct cfs_rq *queue, __u64 since_ns, __u64 now_ns)
{
	__s64 kept_ns = 0;
	__u32 moved;

	if (unlikely(thread->queue_key == OWN_RUNTIME))
		return own_kept_ns(thread, task, since_ns, now_ns);
	if (!has_quota(task, queue))
		return 0;
	if (thread->queue_key == (__u64)queue) {
		kept_ns = throttled_ns(queue) - thread->throttled_ns;
		if (likely(kept_ns <= 0))
			return 0;
	}
	if (thread->off_state)
		return kept_ns;
	moved = migrations(task) - thread->migrations;
	if (!moved)
		return kept_ns;
	return moved == 1 ? kept_before_ns(thread, task, queue, now_ns - since_ns) : 0;
}

/* The queue of a task's group on a CPU. */
static __always_inline struct cfs_rq *queue_on(struct task_struct *task, __u32 cpu)
{
	struct cfs_rq **queues, *queue = NULL;
	struct task_group *group;

	if (!bpf_core_field_exists(task->sched_task_group) ||
	    !bpf_core_field_exists(struct task_group, cfs_rq))
		return NULL;
	group = task->sched_task_group;
	queues = PEEK(group, cfs_rq);
	bpf_core_read(&queue, sizeof(queue), queues + cpu);
	return queue;
}

/* Who could run is put into another CPU's queue: from now on that one's account counts, beside what
 * others have kept it for.  Its count of migrations grows behind this. */
static __always_inline void throttle_moved(struct thread *thread, struct task_struct *task,
					   __u32 cpu, __u64 since_ns, __u64 now_ns)
{
	struct cfs_rq *queue = queue_of(task);
	__u64 kept_ns;

	if (thread->queue_key == OWN_RUNTIME || !has_quota(task, queue))
		return;
	kept_ns = throttle_kept_ns(thread, task, queue, since_ns, now_ns);
	thread->queue_key = (__u64)queue_on(task, cpu);
	thread->throttled_ns = throttled_elsewhere_ns(thread->queue_key) - kept_ns;
	thread->migrations = migrations(task) + 1;
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
					 struct cfs_rq *queue, __u64 since_ns, __u64 now_ns)
{
	__u64 kept_ns = throttle_kept_ns(thread, task, queue, since_ns, now_ns);

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
