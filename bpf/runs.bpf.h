/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who had each CPU lately.  Every switch is noted in memory; only what a
 * recorded thread had to wait for becomes events.
 */
#ifndef IOSTRATA_RUNS_BPF_H
#define IOSTRATA_RUNS_BPF_H

#include "task.bpf.h"

extern struct cpu_runs cpu_runs[MAX_CPUS];

static __always_inline struct cpu_runs *runs_of(__u32 cpu)
{
	return &cpu_runs[cpu & (MAX_CPUS - 1)];
}

static __always_inline struct run *run_before(struct cpu_runs *own, __u64 count)
{
	return &own->last[(own->count - count) & (RUNS - 1)];
}

/* This CPU goes from one task to the next. */
static __always_inline void run_begins(struct cpu_runs *own, struct task_struct *next, __u64 now_ns)
{
	struct run *run = run_before(own, 1);
	const __u64 *leader;

	run->end_ns = now_ns;
	own->count++;
	run = run_before(own, 1);
	run->begin_ns = now_ns;
	run->end_ns = 0;
	run->told = 0;
	run->tgid = next->tgid;
	if (!run->tgid)
		return;
	run->cgroup = task_cgroup(next);
	leader = (const __u64 *)next->group_leader->comm;
	run->process[0] = leader[0];
	run->process[1] = leader[1];
}

/* Tells who had a CPU from a time until now, but for the latest ``skipped`` runs (state.bpf.c).
 * Not hidden: the verifier looks at it once. */
int runs_tell(__u32 cpu, __u64 since_ns, __u64 now_ns, __u32 skipped);

#endif
