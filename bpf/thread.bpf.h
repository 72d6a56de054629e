/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recorded threads.  Finding one is four comparisons in a small table, so
 * a hit of any other thread costs next to nothing.
 */
#ifndef IOSTRATA_THREAD_BPF_H
#define IOSTRATA_THREAD_BPF_H

#include "emit.bpf.h"

extern const volatile struct filter filter;
extern __u32 recording_over; /* what a thread is in stays as it is, for the recorder to tell */
extern __u64 chosen_cgroups[MAX_NAMES]; /* the filter's, by the ids that they have now */
extern __u32 thread_owner[MAX_THREADS]; /* tid, 0: free; the same index as in threads */

struct threads_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct thread);
};
extern struct threads_map threads SEC(".maps");

struct stacks_map {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, MAX_STACKS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, STACK_FRAMES * sizeof(__u64));
};
extern struct stacks_map stacks SEC(".maps");

static __always_inline struct thread *thread_at(__u32 index)
{
	return bpf_map_lookup_elem(&threads, &index);
}

/* The thread's state, NULL: it is not recorded. */
static __always_inline struct thread *thread_of(__u32 tid)
{
	__u32 place = (tid & (THREAD_SETS - 1)) * THREAD_WAYS;

	if (!tid)
		return NULL;
	if (unlikely(thread_owner[place] != tid)) {
		if (thread_owner[place + 1] == tid)
			place += 1;
		else if (thread_owner[place + 2] == tid)
			place += 2;
		else if (thread_owner[place + 3] == tid)
			place += 3;
		else
			return NULL;
	}
	return thread_at(place);
}

/* At what others' syncs wait for (beside.bpf.h). */
static __always_inline bool thread_is_beside(const struct thread *thread)
{
	return thread->call == CALL_BESIDE && !thread->enter_ns;
}

/* Targets matter while they are in a call, or keep others from their syncs; those that work for them,
 * always. */
static __always_inline bool thread_at_work(const struct thread *thread)
{
	return thread->enter_ns || thread->call == CALL_BESIDE || thread->kind > THREAD_TARGET;
}

static __always_inline bool take(__u32 *place, __u32 value)
{
	if (has_cmpxchg)
		return __sync_val_compare_and_swap(place, 0, value) == 0;
	if (*place)
		return false;
	*place = value;
	return true;
}

/* Where a new thread's state is, -1: its set is full, which is told (state.bpf.c).  Not hidden: see
 * watch_add. */
int thread_place(__u32 tid, __u32 tgid, __u32 kind);

/* A new thread's state; NULL: there is no room. */
static __always_inline struct thread *thread_add(__u32 tid, __u32 tgid, __u32 kind)
{
	int place = thread_place(tid, tgid, kind);

	return place < 0 ? NULL : thread_at(place);
}

/* It is recorded no more (state.bpf.c).  Not hidden: see watch_add. */
int thread_remove(__u32 tid);

/* A task's name, behind which the kernel may have the rest of an earlier one. */
static __always_inline void task_comm(struct task_struct *task, char *comm)
{
	__builtin_memset(comm, 0, sizeof(task->comm));
	bpf_core_read_str(comm, sizeof(task->comm), &task->comm);
}

/* The name of a task's process: its first thread's. */
static __always_inline void process_comm(struct task_struct *task, char *comm)
{
	task_comm(PEEK(task, group_leader), comm);
}

/* What a thread has of its own among all that have its number. Of a process's threads one that
 * executes a program takes the first one's number and its time (de_thread of fs/exec.c). */
static __always_inline __u32 thread_birth(struct task_struct *task)
{
	return PEEK(task, start_time) >> 10 ^ (__u64)PEEK(task, stack) >> 12;
}

static __always_inline bool comm_is_wanted(const char *comm)
{
	for (__u32 i = 0; i < MAX_NAMES && i < filter.comm_count; i++) {
		const volatile __u64 *wanted = (const volatile __u64 *)filter.comms[i];

		if (wanted[0] == *(__u64 *)comm && wanted[1] == *(__u64 *)(comm + 8))
			return true;
	}
	return false;
}

/* The thread's own name, or its process's. */
static __always_inline bool comm_matches(void)
{
	char comm[16] = {};

	if (!filter.comm_count)
		return true;
	bpf_get_current_comm(comm, sizeof(comm));
	if (comm_is_wanted(comm))
		return true;
	process_comm(current_task(), comm);
	return comm_is_wanted(comm);
}

static __always_inline bool cgroup_matches(void)
{
	if (!filter.cgroup_count)
		return true;
	for (__u32 i = 0; i < MAX_NAMES && i < filter.cgroup_count; i++) {
		if (bpf_get_current_ancestor_cgroup_id(filter.cgroups[i].level) ==
		    chosen_cgroups[i])
			return true;
	}
	return false;
}

/* Whether all threads of a process are of that kind if its first one is. */
static __always_inline bool is_of_process(__u32 kind)
{
	return filter.process_kinds >> (kind & 31) & 1;
}

/* Whether the current thread, or its process, has the name by which a duty is known. */
static __always_inline bool current_has_name_of(__u32 duty)
{
	const volatile __u64 *wanted = (const volatile __u64 *)filter.duty[duty].comm;
	char comm[16] = {};

	bpf_get_current_comm(comm, sizeof(comm));
	return wanted[0] && wanted[0] == *(__u64 *)comm && wanted[1] == *(__u64 *)(comm + 8);
}

/* It is of another kind from now on, and told of as that.  Outside of calls its switches may not have
 * been counted (switches.bpf.h). */
static __always_inline void thread_becomes(struct thread *thread, __u32 kind)
{
	thread->kind = kind;
	thread->announced = ANNOUNCED_NEVER;
	if (!thread->enter_ns)
		thread->switches = 0;
}

/* The current thread, if it is one of the server's of a duty, from its first work on; it may have
 * been met syncing on another's behalf.  NULL: it is not. */
static __always_inline struct thread *server_admit(__u32 duty)
{
	__u64 ids = current_ids();
	struct thread *thread = thread_of((__u32)ids);

	if (thread && thread->kind == THREAD_SERVER)
		return thread;
	if (!current_has_name_of(duty))
		return NULL;
	if (!thread)
		return thread_add(ids, ids >> 32, THREAD_SERVER);
	thread_becomes(thread, THREAD_SERVER);
	return thread;
}

/* A worker is at another request than it was when this was said last; 0: at none. */
static __always_inline void thread_works_on(struct thread *thread, __u64 request_key, __u32 point,
					    __u64 now_ns)
{
	union event *e = emit_reserve_at(point, now_ns);

	if (!e)
		return;
	thread->request_key = request_key;
	e->io_uring_work.request_key = request_key;
	emit_submit(e, point);
}

/* The current thread's state if it serves others; made when it is first met where its
 * process's first thread is known to. */
static __always_inline struct thread *thread_that_serves(void)
{
	__u64 ids = current_ids();
	struct thread *thread = thread_of((__u32)ids), *first;

	if (thread)
		return thread->kind ? thread : NULL;
	first = thread_of(ids >> 32);
	if (!first || !is_of_process(first->kind))
		return NULL;
	return thread_add(ids, ids >> 32, first->kind);
}

/* What a thread is that does something of a workload: io_uring's own one that submits for others
 * (SQPOLL) makes no calls. */
static __always_inline __u32 kind_of_current(void)
{
	struct task_struct *task = current_task();

	return PEEK(task, flags) & PF_IO_WORKER ? THREAD_WORKER : THREAD_TARGET;
}

/* As below, where nothing of it was seen to begin. */
static __always_inline struct thread *thread_wanted(void)
{
	__u64 ids = current_ids();
	struct thread *thread = thread_of((__u32)ids);

	/* What it was at beside has ended, without a word. */
	if (thread && unlikely(thread->call == CALL_BESIDE)) {
		thread->call = 0;
		if (thread->kind == THREAD_BESIDE) {
			thread_remove(ids);
			thread = NULL;
		}
	}
	if (thread)
		thread->behind = 0;
	if (thread && thread->kind > THREAD_TARGET && thread->kind != THREAD_WORKER)
		return thread;
	if (filter.process_kinds && !thread) {
		thread = thread_that_serves();
		if (thread)
			return thread;
	}
	if (!(filter.duties & DUTY_BIT(workload)))
		return NULL;
	if (!thread && (filter.tree || ids >> 32 == filter.own_tgid))
		return NULL;
	if (!comm_matches() || !cgroup_matches())
		return NULL;
	if (!thread)
		return thread_add(ids, ids >> 32, kind_of_current());
	if (!thread->kind)
		thread->kind = THREAD_TARGET;
	return thread;
}

/* The current thread's state, if the filters let this call be recorded: names and cgroups
 * change.  Made at its first call where no process tree was asked for. */
static __always_inline struct thread *thread_admit(void)
{
	struct thread *thread = recording_over ? NULL : thread_wanted();

	if (thread)
		thread->met = 1;
	return thread;
}

/* Says who the current thread is, unless that was said; who it is as a task then is next. */
static __always_inline void thread_announce(struct thread *thread)
{
	union event *e;

	if (thread->announced == ANNOUNCED || thread->kind == THREAD_BESIDE)
		return;
	e = emit_reserve(POINT_thread);
	if (!e)
		return;
	if (thread->announced == ANNOUNCED_BEFORE)
		thread->told = 0;
	thread->announced = ANNOUNCED;
	e->thread.tgid = thread->tgid;
	e->thread.subject_tid = e->thread.tid;
	e->thread.kind = thread->kind;
	bpf_get_current_comm(e->thread.comm, sizeof(e->thread.comm));
	process_comm(current_task(), e->thread.process);
	e->thread.birth = thread_birth(current_task());
	emit_submit(e, POINT_thread);
}

#endif
