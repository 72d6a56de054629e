/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether the current thread is in a 32-bit program's system call, or begins such a program. */
#ifndef IOSTRATA_COMPAT_BPF_H
#define IOSTRATA_COMPAT_BPF_H

#include "thread.bpf.h"

#ifdef __TARGET_ARCH_arm64
#define COMPAT_STATE flags
#define COMPAT_BIT (1u << 22) /* TIF_32BIT, arch/arm64/include/asm/thread_info.h */
#else
#define COMPAT_STATE status
#define COMPAT_BIT 2 /* TS_COMPAT, arch/x86/include/asm/thread_info.h */
#endif

static __always_inline bool current_is_compat(void)
{
	if (!bpf_core_field_exists(struct thread_info, COMPAT_STATE))
		return false;
	return CURRENT(thread_info.COMPAT_STATE) & COMPAT_BIT;
}

/* The recorder attaches the points of 32-bit programs' calls. */
static __always_inline void compat_begins(void)
{
	__sync_fetch_and_add(&compat_execs, 1);
	if (has_cmpxchg)
		ring_wake();
}

/* A 64-bit program can make such calls, too (int 0x80 of x86).  Nothing tells of them before the points
 * are attached, but that they reach a disk. */
static __always_inline void compat_notice(void)
{
	struct thread *thread;

	if (!current_is_compat())
		return;
	/* In none of its calls that are recorded: that would be over now. */
	thread = thread_of(current_tid());
	if (thread && thread_is_beside(thread))
		return;
	thread = thread_admit();
	if (!thread || thread->enter_ns || thread->compat)
		return;
	thread->compat = 1;
	compat_begins();
}

#endif
