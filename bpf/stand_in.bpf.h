/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that another one stands in for where the kernel skips them.
 *
 *	PROGRAM("tp_btf/block_rq_issue", block_rq_issue, __u64 *ctx)
 *	{
 *		...
 *	}
 *
 * The kernel skips a program that is met while one of its CPU's threads, preempted, is in it
 * (bpf_prog_get_recursion_context).  Those of functions may always be preempted, those of points since
 * Linux a46023d5616e ("tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with SRCU-fast"), in
 * v7.0.  So the same is attached twice: whichever comes first leaves a mark with its task as it ends,
 * and the other does it all where there is no mark.  What interrupts do, whose current task is
 * anybody, has none.
 *
 * The second is attached once the first was skipped, as each hit of it costs; that of system calls
 * from the begin, as who records has dropped what attaching it takes.  At a point the first
 * that was attached comes first, at a function the last (bpf_trampoline_link_prog).
 */
#ifndef IOSTRATA_STAND_IN_BPF_H
#define IOSTRATA_STAND_IN_BPF_H

#include "interrupt.bpf.h"

extern const volatile bool functions_stood_in; /* such programs may be loaded twice */
extern const volatile bool points_stood_in;

struct marks_map {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
};
extern struct marks_map marks SEC(".maps");

/* That what comes first has done it. */
static __always_inline void mark_done(const void *ctx)
{
	__u32 *mark;

	if (in_interrupt(ctx))
		return;
	mark = bpf_task_storage_get(&marks, current_task(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (mark)
		*mark = 1;
}

/* Whether what comes first was skipped.  Not where nothing of the task was marked before: then a
 * mark may have found no memory. */
static __always_inline bool was_skipped(const void *ctx)
{
	__u32 *mark;
	bool done;

	if (in_interrupt(ctx))
		return false;
	mark = bpf_task_storage_get(&marks, current_task(), NULL, 0);
	if (!mark)
		return false;
	done = *mark;
	*mark = 0;
	return !done;
}

#define AT_FUNCTION(section) ((section)[0] == 'f')

#define PROGRAM(section, name, context)                                                   \
	static __always_inline int name##_does(context);                                  \
	struct stand_in name##_stand_in SEC(".data.stand_ins") = {};                      \
	SEC(section)                                                                      \
	int name(context)                                                                 \
	{                                                                                 \
		bool second = AT_FUNCTION(section) && functions_stood_in &&               \
			      name##_stand_in.standing == STANDS_IN;                      \
                                                                                          \
		if (second && !was_skipped(ctx))                                          \
			return 0;                                                         \
		if (second)                                                               \
			__sync_fetch_and_add(&name##_stand_in.count, 1);                  \
		name##_does(ctx);                                                         \
		if (!AT_FUNCTION(section) && points_stood_in && name##_stand_in.standing) \
			mark_done(ctx);                                                   \
		return 0;                                                                 \
	}                                                                                 \
	SEC(section)                                                                      \
	int name##_again(context)                                                         \
	{                                                                                 \
		if (AT_FUNCTION(section)) {                                               \
			if (name##_stand_in.standing != STANDS_IN)                        \
				return 0;                                                 \
			name##_does(ctx);                                                 \
			mark_done(ctx);                                                   \
			return 0;                                                         \
		}                                                                         \
		if (!name##_stand_in.standing || !was_skipped(ctx) ||                     \
		    name##_stand_in.standing != STANDS_IN)                                \
			return 0;                                                         \
		__sync_fetch_and_add(&name##_stand_in.count, 1);                          \
		name##_does(ctx);                                                         \
		return 0;                                                                 \
	}                                                                                 \
	static __always_inline int name##_does(context)

#endif
