/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who a task is: its process, and the control group that it is in.  Each id of
 * a group is noted for the recorder, which finds its path while it is there.
 */
#ifndef IOSTRATA_TASK_BPF_H
#define IOSTRATA_TASK_BPF_H

#include "thread.bpf.h"

extern __u32 told_tasks[TOLD_TASKS];
extern __u64 cgroups[CGROUP_SETS * CGROUP_WAYS];

/* The id of a task's control group of version 2, 0: the kernel has none. */
static __always_inline __u64 task_cgroup(struct task_struct *task)
{
	return bpf_core_field_exists(task->cgroups) ? task->cgroups->dfl_cgrp->kn->id : 0;
}

/* What finds no place keeps its number, and has no path (state.bpf.c).  Not hidden: so the
 * verifier looks at it once, and not once for each place that calls it. */
__u64 cgroup_note(__u64 id);

/* A group of any hierarchy by the number that events have for it, noted, too. */
static __always_inline __u64 cgroup_number(struct cgroup *group)
{
	__u64 hierarchy = BPF_CORE_READ(group, root, hierarchy_id);

	return cgroup_note(BPF_CORE_READ(group, kn, id) | hierarchy << CGROUP_ID_BITS);
}

/* Says who the current task is; 0: there was no room (state.bpf.c).  Not hidden, for the same reason. */
int task_emit(void);

/* Says who the current task is, unless that was said; false: it could not be, as nothing is
 * recorded yet or there was no room, and is to be tried again. */
static __always_inline bool task_tell(void)
{
	__u32 tid = current_tid(), *told = &told_tasks[tid & (TOLD_TASKS - 1)];

	if (likely(*told == tid))
		return true;
	if (!task_emit())
		return false;
	*told = tid;
	return true;
}

/* The same of the current thread, which is recorded. */
static __always_inline void thread_tell(struct thread *thread)
{
	if (likely(thread->told))
		return;
	thread->told = task_tell();
}

/* Says who the current thread is, as what is recorded and as a task. */
static __noinline void caller_meet(struct thread *thread)
{
	thread_announce(thread);
	thread_tell(thread);
}

static __always_inline void caller_announce(struct thread *thread)
{
	if (unlikely(thread->announced != ANNOUNCED || !thread->told))
		caller_meet(thread);
}

/* A new name, or a number that is free again. */
static __always_inline void task_forget(__u32 tid)
{
	struct thread *thread = thread_of(tid);

	told_tasks[tid & (TOLD_TASKS - 1)] = 0;
	if (thread)
		thread->told = 0;
}

#endif
