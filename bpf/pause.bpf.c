// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who sleeps for a time (schedule_timeout, schedule_hrtimeout) has a timer on its stack that knows
 * whom to wake: when that expires, this ends the sleep, unless something else has.
 */
#include "stack.bpf.h"
#include "thread.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Both begin with the timer. */
struct process_timer {
	struct task_struct *task;
};

struct hrtimer_sleeper {
	struct task_struct *task;
};

#pragma clang attribute pop

/* Most timers are of another kind, and task is whatever lies behind them. */
static __always_inline void expires(struct task_struct *task, __u64 timer)
{
	struct thread *thread;
	__u64 stack;

	/* The kernel's own addresses are negative. */
	if ((__s64)task >= 0)
		return;
	thread = thread_of(PEEK(task, pid));
	if (!thread || !thread->off_ns || !thread->off_state || thread->wake_ns)
		return;
	stack = (__u64)PEEK(task, stack);
	if (timer - stack >= STACK_BYTES)
		return;
	thread->waker_cpu = current_cpu();
	thread->timed = 1;
}

SEC("tp_btf/timer_expire_entry")
int pause_timer(__u64 *ctx)
{
	struct process_timer *timer = ARGUMENT(struct process_timer *, 0);

	expires(PEEK(timer, task), argument_key(ctx, 0));
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int pause_hrtimer(__u64 *ctx)
{
	struct hrtimer_sleeper *timer = ARGUMENT(struct hrtimer_sleeper *, 0);

	expires(PEEK(timer, task), argument_key(ctx, 0));
	return 0;
}
