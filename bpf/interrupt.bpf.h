/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a thread does something itself, or an interrupt that came upon it.
 * On x86 the kernel's own count of that is a variable whose address many
 * kernels do not tell (CONFIG_KALLSYMS_ALL).  But interrupts, and soft ones
 * after them, have stacks of their own, except where they come upon a program
 * in user mode, or where a thread does nothing but serve soft ones.  On arm64
 * each task has the count.
 */
#ifndef IOSTRATA_INTERRUPT_BPF_H
#define IOSTRATA_INTERRUPT_BPF_H

#include <asm/ptrace.h>

#include "stack.bpf.h"
#include "thread.bpf.h"

/* The first eight characters of the current task's name, as they are in memory. */
static __always_inline __u64 current_name_begins(void)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	return *(__u64 *)comm;
}

/* Whether it is a thread of the kernel's that an interrupt has (setup_irq_thread of
 * kernel/irq/manage.c): "irq/". */
static __always_inline bool current_handles_interrupts(void)
{
	char wanted[8] = { 'i', 'r', 'q', '/' }, compared[8] = { -1, -1, -1, -1 };

	return (current_name_begins() & *(__u64 *)compared) == *(__u64 *)wanted;
}

#ifdef __TARGET_ARCH_arm64

/* linux/preempt.h: a non-maskable interrupt, an interrupt, a soft one that is served. */
#define INTERRUPTS 0xff0100

static __always_inline bool in_interrupt(const void *ctx)
{
	(void)ctx;
	return CURRENT(thread_info.preempt_count) & INTERRUPTS;
}

static __always_inline enum wake_context wake_context(const void *ctx)
{
	return in_interrupt(ctx) ? WAKE_INTERRUPT : WAKE_THREAD;
}

#else

/* Whether a program's context, which the kernel makes on the stack it is on, is not on the
 * task's. */
static __always_inline bool in_interrupt(const void *ctx)
{
	__u64 begin = (__u64)CURRENT(stack), end = begin + STACK_BYTES;

	/* The verifier lets a pointer be compared, not counted with. */
	barrier_var(end);
	return (__u64)ctx < begin || (__u64)ctx >= end;
}

/* "ksoftirq", as its first eight characters are in memory. */
static __always_inline bool current_serves_soft_interrupts(void)
{
	char wanted[8] = { 'k', 's', 'o', 'f', 't', 'i', 'r', 'q' };

	return current_name_begins() == *(__u64 *)wanted;
}

/* Whether the current task, which no interrupt's stack has, is in a system call: what comes upon it in
 * user mode leaves no number there (idtentry_body of arch/x86/entry/entry_64.S), nor on kernels before
 * dd6e10fbd9fb ("bpf: Add bpf_task_pt_regs() helper"), in v5.15, is it told of any but ours. */
static __always_inline bool current_is_in_call(void)
{
	struct thread *thread = thread_of(current_tid());
	struct pt_regs *regs;

	if (thread && thread->enter_ns)
		return true;
	if (!bpf_helper_exists(task_pt_regs))
		return false;
	regs = (struct pt_regs *)bpf_task_pt_regs(current_task());
	return (__s64)regs->orig_rax >= 0;
}

static __always_inline enum wake_context wake_context(const void *ctx)
{
	__u32 flags;

	if (in_interrupt(ctx))
		return WAKE_INTERRUPT;
	flags = CURRENT(flags);
	if (flags & PF_KTHREAD)
		return current_serves_soft_interrupts() ? WAKE_INTERRUPT : WAKE_THREAD;
	if (flags & PF_IO_WORKER)
		return WAKE_THREAD;
	/* Only in a system call it is told from an interrupt. */
	return current_is_in_call() ? WAKE_THREAD : WAKE_UNKNOWN;
}

#endif

#endif
