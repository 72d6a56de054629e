/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Workers of the kernel's pools go from one work to the next without a word; a sleep in the one is
 * nothing to whom they let go in the other.
 */
#ifndef IOSTRATA_POOLED_BPF_H
#define IOSTRATA_POOLED_BPF_H

#include "work.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct wq_barrier {
	struct task_struct *task;
};

#pragma clang attribute pop

static __always_inline __u32 task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return task->state;
}

static __always_inline bool is_at_other_work(const struct thread *worker, __u64 work)
{
	return worker->work_key && worker->work_key != work;
}

/* Idle (TASK_IDLE) it has no work. */
static __always_inline void worker_sleeps(struct thread *thread, struct task_struct *task)
{
	struct worker *worker;
	__u64 work = 0;

	if (!(thread->off_state & TASK_NOLOAD)) {
		worker = current_worker(task);
		work = (__u64)PEEK(worker, current_work);
		thread->other_work = is_at_other_work(thread, work);
		thread->work_pool_key = (__u64)PEEK(worker, current_pwq);
		thread->work_function = (__u64)PEEK(worker, current_func);
	}
	thread->work_key = work;
}

/* Whether what a worker has done last is what it slept in: the same function, of a queue of that
 * name, which is all that the kernel keeps of it (process_one_work of kernel/workqueue.c). */
static __noinline bool slept_in_last_work(struct thread *thread, struct worker *worker)
{
	struct pool_workqueue *pool = (void *)thread->work_pool_key;
	struct workqueue_struct *queue = PEEK(pool, wq);
	__u64 name[3] = {}, last[3] = {};

	if ((__u64)PEEK(worker, last_func) != thread->work_function)
		return false;
	bpf_core_read_str(name, sizeof(name), &queue->name);
	bpf_core_read_str(last, sizeof(last), &worker->desc);
	return name[0] == last[0] && name[1] == last[1] && name[2] == last[2];
}

/* Who waits for the end of a work, or of all of a queue (__flush_work, __flush_workqueue), is let go
 * by its worker when that is at a work that was put behind it for that, or at none. */
static __always_inline bool worker_lets_flusher_go(struct work_struct *work,
						   struct task_struct *task)
{
	if (!work)
		return !(task_state(task) & TASK_NOLOAD);
	return PEEK((struct wq_barrier *)work, task) == task;
}

/* task: whom the current one, which is recorded, lets go. */
static __always_inline bool waker_is_at_other_work(struct thread *thread, struct task_struct *task)
{
	struct worker *worker;
	struct work_struct *work;

	if (!thread->work_key)
		return false;
	worker = current_worker(current_task());
	work = PEEK(worker, current_work);
	if (!is_at_other_work(thread, (__u64)work))
		return false;
	return !worker_lets_flusher_go(work, task) || !slept_in_last_work(thread, worker);
}

#endif
