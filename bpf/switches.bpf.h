/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How often a thread leaves its CPU: by the kernel's count, and as was seen.  There are kernels that
 * run no program while some tasks of theirs are current: who has the CPU next is not seen to. */
#ifndef IOSTRATA_SWITCHES_BPF_H
#define IOSTRATA_SWITCHES_BPF_H

#include "thread.bpf.h"

/* The kernel counts a switch before it tells of it (__schedule). */
static __always_inline __u32 switches_of(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

static __always_inline __u32 switches_of_current(void)
{
	return CURRENT(nvcsw) + CURRENT(nivcsw);
}

/* The call has begun: from here on each switch is counted by both. */
static __always_inline void switches_begin(struct thread *thread)
{
	barrier();
	thread->switches = switches_of_current();
}

/* Seldom: a kernel that shows all its switches never comes here. */
static __noinline void hidden_tell(const struct thread *thread, __u32 count)
{
	union event *e = emit_reserve(POINT_sched_hidden);

	if (!e)
		return;
	e->sched_hidden.enter_ns = thread->enter_ns;
	e->sched_hidden.count = count;
	e->sched_hidden.pad = 0;
	emit_submit(e, POINT_sched_hidden);
}

/* The call is about to end. */
static __always_inline void switches_end(const struct thread *thread)
{
	__u32 hidden = switches_of_current() - thread->switches;

	if (unlikely(hidden))
		hidden_tell(thread, hidden);
}

/* A thread at work leaves its CPU, by sched_switch; resumed() counts that.  0 outside of calls: it
 * was not at work before, or not for long. */
static __always_inline void switches_go_on(struct thread *thread, struct task_struct *task)
{
	__u32 before = switches_of(task) - 1;

	if (likely(thread->switches == before))
		return;
	if (thread->switches || thread->enter_ns)
		hidden_tell(thread, before - thread->switches);
	thread->switches = before;
}

#endif
