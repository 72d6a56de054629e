/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel workers that are not recorded, and may turn out to be what a recorded
 * thread waits for, when they let it go on; and the threads of journals, until the
 * first commit of theirs: by whom each was let go itself, and who that is, is noted
 * in memory, and becomes an event only then.  And of any other task when it was,
 * so that who only passes a lock on is not taken for who had it.
 */
#ifndef IOSTRATA_WOKEN_BPF_H
#define IOSTRATA_WOKEN_BPF_H

#include "interrupt.bpf.h"
#include "task.bpf.h"

extern struct woken woken[1 << WOKEN_BITS];
extern struct passed passed[1 << PASSED_BITS];

static __always_inline struct woken *woken_of(__u32 tid)
{
	return &woken[tid & ((1 << WOKEN_BITS) - 1)];
}

static __always_inline struct passed *passed_of(__u32 tid)
{
	return &passed[tid & ((1 << PASSED_BITS) - 1)];
}

/* The name of a journal's thread begins with "jbd2". */
static __always_inline bool commits(const struct task_struct *task)
{
	return task->flags & PF_KTHREAD && *(const __u32 *)task->comm == 0x3264626a;
}

static __always_inline bool is_noted(const struct task_struct *task)
{
	return task->flags & PF_WQ_WORKER || commits(task);
}

/* Who waits as for a lock and is let go by another task gets what that one had. */
static __always_inline void passed_note(__u64 *ctx, __u32 tid, __u32 state)
{
	struct passed *last = passed_of(tid);

	if (!(state & TASK_UNINTERRUPTIBLE) || state & TASK_NOLOAD ||
	    wake_context(ctx) != WAKE_THREAD)
		return;
	last->tid = tid;
	last->wake_ns = bpf_ktime_get_ns();
}

/* Whether the current task, which ends a sleep now, was waiting itself for most of that: whom it
 * waited for knows more. */
static __always_inline bool current_passes_on(__u64 off_ns, __u64 now_ns)
{
	const struct passed *last = passed_of(current_tid());

	return last->tid == current_tid() && last->wake_ns > off_ns + (now_ns - off_ns) / 2;
}

/* A program may be gone before it turns out that what it let go is of use, as dmsetup, which has a
 * device resumed. */
static __noinline void waker_note(struct woken *last)
{
	struct task_struct *task = current_task();

	last->waker_tgid = PEEK(task, tgid);
	last->waker_cgroup = 0;
	if (bpf_core_field_exists(task->cgroups))
		last->waker_cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	task_comm(task, last->waker_comm);
	process_comm(task, last->waker_process);
}

static __noinline void waker_emit(const struct woken *last)
{
	union event *e = emit_reserve(POINT_task);

	if (!e)
		return;
	e->task.cgroup = last->waker_cgroup ? cgroup_note(last->waker_cgroup) : 0;
	e->task.tgid = last->waker_tgid;
	e->task.subject_tid = last->waker_tid;
	__builtin_memcpy(e->task.comm, last->waker_comm, sizeof(e->task.comm));
	__builtin_memcpy(e->task.process, last->waker_process, sizeof(e->task.process));
	emit_submit(e, POINT_task);
}

/* Somebody lets it go. */
static __always_inline void woken_note(__u64 *ctx, __u32 tid, __u32 state)
{
	struct woken *last = woken_of(tid);

	last->tid = tid;
	last->wake_ns = bpf_ktime_get_ns();
	last->on_ns = 0;
	last->waker_tid = current_tid();
	last->state = state;
	last->waker_cpu = current_cpu();
	last->waker_context = wake_context(ctx);
	last->waker_tgid = 0;
	if (last->waker_context == WAKE_THREAD && !(CURRENT(flags) & PF_KTHREAD))
		waker_note(last);
}

/* It runs, for the first time since; now_ns 0: at this moment. */
static __always_inline void woken_runs(__u32 tid, __u64 now_ns)
{
	struct woken *last = woken_of(tid);

	if (last->tid == tid && !last->on_ns)
		last->on_ns = now_ns ? now_ns : bpf_ktime_get_ns();
}

/* It is recorded from now on. */
static __always_inline void woken_tell(__u32 tid)
{
	struct woken *last = woken_of(tid);
	union event *e;

	if (last->tid != tid || !last->on_ns)
		return;
	if (last->waker_tgid)
		waker_emit(last);
	e = emit_reserve(POINT_sched_woken);
	if (!e)
		return;
	e->sched_woken.wake_ns = last->wake_ns;
	e->sched_woken.on_ns = last->on_ns;
	e->sched_woken.waker_tid = last->waker_tid;
	e->sched_woken.state = last->state;
	e->sched_woken.subject_tid = tid;
	e->sched_woken.waker_cpu = last->waker_cpu;
	e->sched_woken.waker_context = last->waker_context;
	emit_submit(e, POINT_sched_woken);
	last->tid = 0;
}

#endif
