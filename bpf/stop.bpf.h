/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A thread is stopped on its way back to user space: behind its call, in which it no longer is. */
#ifndef IOSTRATA_STOP_H
#define IOSTRATA_STOP_H

#include "emit.bpf.h"
#include "pooled.bpf.h"
#include "switches.bpf.h"
#include "throttle.bpf.h"

/* Whether sched_switch says the state that prev leaves in (since Linux
 * fa2c3254d7cf, in v5.18); set by the recorder. */
extern const volatile bool switch_state_argument;

/* ctx: of sched_switch, by which the task leaves its CPU of its own will. */
static __always_inline __u32 state_left_in(__u64 *ctx, struct task_struct *task)
{
	return switch_state_argument ? ctx[3] : task_state(task);
}

/* Whether the current task, a thread that could go on, is on its way back from its last call that
 * was recorded (exit_to_user_mode_loop of kernel/entry/common.c): what came upon it in user mode
 * leaves no call's number in its registers, another call another one, and one that nobody has seen
 * begin yet is not over.  Before Linux dd6e10fbd9fb, in v5.15, nothing tells them. */
static __always_inline bool is_behind_call(const struct thread *thread)
{
	const void *regs;

	if (likely(!thread->behind) || !bpf_helper_exists(task_pt_regs))
		return false;
	regs = (const void *)bpf_task_pt_regs(current_task());
	return thread->behind == (__u16)(call_number(regs) + 1) && call_is_over(regs);
}

/* ctx: of sched_switch, which the task, the current one, leaves its CPU by; STOP_NONE: it may run,
 * or sleeps. */
static __always_inline enum stop stop_of(__u64 *ctx, const struct thread *thread,
					 struct task_struct *task)
{
	__u32 state;

	if (bpf_core_field_exists(task->throttled) && unlikely(task->throttled))
		return STOP_QUOTA;
	state = ctx[0] ? 0 : state_left_in(ctx, task);
	/* What a thread asked for that goes on behind its calls waits for it: that is told below. */
	if (!state && !thread->collects && is_behind_call(thread))
		return STOP_PREEMPTED;
	if (ctx[0]) /* preempted */
		return STOP_NONE;
	if (unlikely(state & (TASK_STOPPED | TASK_TRACED)))
		return STOP_SIGNAL;
	if (unlikely(state & TASK_FROZEN || task->flags & PF_FROZEN))
		return STOP_FREEZER;
	/* Who waits for a child that has its memory (vfork) may be killed only, and is marked, too. */
	if (bpf_core_field_exists(task->frozen) && state & TASK_INTERRUPTIBLE &&
	    unlikely(BPF_CORE_READ_BITFIELD(task, frozen)))
		return STOP_FREEZER;
	return STOP_NONE;
}

static __always_inline void stop_begin(struct thread *thread, struct task_struct *task,
				       enum stop by, __u64 now_ns)
{
	if (by == STOP_QUOTA)
		thread->queue_key = (__u64)queue_of(task);
	thread->stopped_by = by;
	thread->stopped_ns = now_ns;
	thread->switches = switches_of(task);
}

/* Seldom. */
static __noinline void stop_tell(const struct thread *thread, __u32 tid, __u64 since_ns,
				 __u64 now_ns)
{
	union event *e = emit_reserve_at(POINT_sched_stopped, now_ns);

	if (!e)
		return;
	e->sched_stopped.since_ns = since_ns;
	e->sched_stopped.subject_tid = tid;
	e->sched_stopped.by = thread->stopped_by;
	e->sched_stopped.call_ns = thread->stopped_by == STOP_PREEMPTED ? thread->ended_ns : 0;
	emit_submit(e, POINT_sched_stopped);
}

/* It runs again; for the first time since, unless it has left its CPU meanwhile, and nothing is known
 * of when it had one (switches.bpf.h). */
static __always_inline void stop_end(struct thread *thread, struct task_struct *task, __u64 now_ns)
{
	__u64 since_ns = thread->stopped_ns;

	thread->stopped_ns = 0;
	if (unlikely(switches_of(task) != thread->switches))
		return;
	if (thread->stopped_by == STOP_QUOTA)
		throttle_tell(thread, task->pid, since_ns, now_ns - since_ns, now_ns);
	else
		stop_tell(thread, task->pid, since_ns, now_ns);
}

#endif
