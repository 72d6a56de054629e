// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Recorded threads come and go, sleep and wake.  Leaving the CPU and being
 * woken are stashed; running again emits one event.
 */
#include <linux/errno.h>

#include "beside.bpf.h"
#include "compat.bpf.h"
#include "interrupt.bpf.h"
#include "pooled.bpf.h"
#include "runs.bpf.h"
#include "stand_in.bpf.h"
#include "stop.bpf.h"
#include "switches.bpf.h"
#include "throttle.bpf.h"
#include "watch.bpf.h"
#include "woken.bpf.h"

/* A kernel thread has ceased to help after so many runs without being of use. */
#define USELESS_RUNS 200
/* Who ends a sleep of so long is told by name: shorter ones end all the time. */
#define LONG_SLEEP_NS 1000000
#define TASKFIN_ 0x5f6e69666b736174 /* "taskfin_" */
#define LIBRBD 0x64627262696c       /* "librbd" */

/* A helper is recorded while it is of use now and then, idle in between or not. */
static __always_inline bool is_useless(struct thread *thread)
{
	return thread->kind == THREAD_HELPER && !thread->enter_ns &&
	       ++thread->useless_runs > USELESS_RUNS;
}

/* Says who a thread is that need not be the current one; false: there was no room. */
static __noinline bool task_announce(struct thread *thread, struct task_struct *task, __u32 kind)
{
	union event *e = emit_reserve(POINT_thread);

	if (!e)
		return false;
	e->thread.tgid = thread->tgid;
	e->thread.subject_tid = task->pid;
	e->thread.kind = kind;
	task_comm(task, e->thread.comm);
	process_comm(task, e->thread.process);
	e->thread.birth = thread_birth(task);
	emit_submit(e, POINT_thread);
	return true;
}

/* It is told, as what it slept for last would be taken for all that it did until it is met again. */
static __always_inline void forget(struct thread *thread, struct task_struct *task)
{
	task_announce(thread, task, 0);
	thread_remove(task->pid);
}

/* Since when a thread that is off the CPU could run, 0: it sleeps. */
static __always_inline __u64 runnable_since(const struct thread *thread)
{
	return thread->off_state ? thread->wake_ns : thread->off_ns;
}

/* Out of the way of all who have been.  Who only collects what others submit is told of by nothing
 * else, and who is told of without a name is one whose name was lost.  As a task it is told of at
 * its first call: until then it may go to another control group. */
static __noinline void announce_late(struct thread *thread)
{
	thread_announce(thread);
}

/* Tells who had its CPU meanwhile; since when nobody had, 0: somebody always. */
static __always_inline __u64 waited_tell(const struct thread *thread, __u64 since_ns, __u64 now_ns)
{
	__u32 cpu = current_cpu();
	struct run *before = run_before(runs_of(cpu), 2);
	__u64 idle_ns = before->tgid ? 0 : before->begin_ns;

	if (since_ns < thread->moved_ns)
		since_ns = thread->moved_ns;
	if (since_ns && (!idle_ns || idle_ns > since_ns))
		runs_tell(cpu, since_ns, now_ns, idle_ns ? 2 : 1);
	return idle_ns;
}

static __always_inline struct gendisk *disk_of(__u64 bio_key)
{
	struct bio *bio = (struct bio *)bio_key;

	return bpf_core_field_exists(bio->bi_bdev) ? BPF_CORE_READ(bio, bi_bdev, bd_disk)
						   : PEEK(bio, bi_disk);
}

/* Whether nobody is let into the queue of the disk that a bio goes to (blk_mq_freeze_queue).  Seldom. */
static __noinline bool is_frozen(__u64 bio_key)
{
	struct gendisk *disk = disk_of(bio_key);
	struct request_queue *queue = PEEK(disk, queue);

	return bpf_core_field_exists(queue->mq_freeze_depth) && PEEK(queue, mq_freeze_depth) > 0;
}

/* A disk that has requests keeps who hands a bio on from going on only until there is one for it:
 * a limit of its queue does (rq_qos: wbt, io.cost, io.latency), none is free, or the queue is
 * frozen.  Seldom. */
static __noinline void asleep_tell(const struct thread *thread, __u32 tid, __u64 now_ns)
{
	struct gendisk *disk = disk_of(thread->bio_key);
	struct block_device_operations *operations = PEEK(disk, fops);
	union event *e;

	if (PEEK(operations, submit_bio))
		return;
	e = emit_reserve_at(POINT_block_bio_asleep, now_ns);
	if (!e)
		return;
	e->block_bio_asleep.bio_key = thread->bio_key;
	e->block_bio_asleep.dev = disk_dev_of(disk);
	e->block_bio_asleep.subject_tid = tid;
	e->block_bio_asleep.off_ns = thread->off_ns;
	e->block_bio_asleep.frozen = thread->frozen;
	e->block_bio_asleep.pad = 0;
	emit_submit(e, POINT_block_bio_asleep);
}

static __always_inline void resumed(struct thread *thread, struct task_struct *task, __u32 tid,
				    __u64 now_ns)
{
	struct cfs_rq *queue = queue_of(task);
	__u64 since_ns = runnable_since(thread), idle_ns = 0;
	union event *e;

	/* Let go while it was leaving: after its last look at what it waits for, before it was off
	 * the CPU, which looking for another task delays (newidle_balance of kernel/sched/fair.c). */
	if (thread->off_state && !thread->wake_ns && thread->let_go)
		since_ns = thread->wake_ns = thread->off_ns;
	if (since_ns)
		throttle_end(thread, task, queue, since_ns, now_ns);
	if (filter.who)
		idle_ns = waited_tell(thread, since_ns, now_ns);
	if (unlikely(thread->submits))
		asleep_tell(thread, tid, now_ns);
	e = emit_reserve_at(POINT_sched_resume, now_ns);

	if (e) {
		e->sched_resume.off_ns = thread->off_ns;
		e->sched_resume.wake_ns = thread->wake_ns;
		e->sched_resume.waker_tid = thread->waker_tid;
		e->sched_resume.state = thread->off_state;
		e->sched_resume.subject_tid = tid;
		e->sched_resume.stack = thread->stack;
		e->sched_resume.waker_cpu = thread->waker_cpu;
		e->sched_resume.waker_context = thread->waker_context;
		e->sched_resume.other_work = thread->other_work;
		e->sched_resume.waker_other_work = thread->waker_other_work;
		e->sched_resume.idle_ns = idle_ns;
		emit_submit(e, POINT_sched_resume);
	}
	thread->switches++;
	thread->waker_tid = 0;
	thread->waker_cpu = 0;
	thread->waker_context = WAKE_UNKNOWN;
	thread->waker_other_work = 0;
	thread->let_go = 0;
	thread->timed = 0;
	thread->off_ns = 0;
}

/* It is off the CPU, in thread->off_state. */
static __always_inline void left(struct thread *thread, __u64 now_ns)
{
	if (unlikely(thread->announced != ANNOUNCED))
		announce_late(thread);
	uring_work_tell(thread, now_ns);
	thread->wake_ns = 0;
	thread->off_ns = now_ns;
}

/* Whether no other bio waits to be handed on behind the one that is.  One list is of what that one
 * has led to, the other of what was there before (__submit_bio_noacct). */
static __noinline bool is_last(struct bio_list *lists)
{
	return !PEEK(lists, head) && !PEEK(lists + 1, head);
}

/* Where another stack has its place, one by another hash is looked for: that of the same without its
 * innermost functions, which are the scheduler's. */
static __always_inline int stack_of(__u64 *ctx)
{
	int stack = bpf_get_stackid(ctx, &stacks, 0);

	if (unlikely(stack == -EEXIST))
		stack = bpf_get_stackid(ctx, &stacks, 1);
	if (unlikely(stack == -EEXIST))
		stack = bpf_get_stackid(ctx, &stacks, 2);
	return stack;
}

/* ctx: of sched_switch. */
static __always_inline void leaves(__u64 *ctx, struct thread *thread, struct task_struct *task,
				   __u64 now_ns)
{
	struct cfs_rq *queue = queue_of(task);
	struct bio_list *lists = task->bio_list;
	bool preempted = ctx[0];

	/* Now, as queue_of() has it. */
	barrier_var(lists);
	if (preempted)
		thread->off_state = 0;
	else
		thread->off_state = state_left_in(ctx, task);
	/* As nobody does whom a sync waits for. */
	if (unlikely(thread_is_beside(thread) && thread->off_state & TASK_INTERRUPTIBLE)) {
		beside_end();
		return;
	}
	left(thread, now_ns);
	switches_go_on(thread, task);
	thread->submits = thread->off_state && lists && is_last(lists);
	if (unlikely(thread->submits))
		thread->frozen = is_frozen(thread->bio_key);
	thread->other_work = 0;
	if (thread->pooled && thread->off_state)
		worker_sleeps(thread, task);
	thread->stack = filter.why && !preempted ? stack_of(ctx) : -1;
	if (!thread->off_state)
		thread->migrations = migrations(task);
	if (!thread->off_state || thread->let_go)
		throttle_begin(thread, task, queue);
	if (is_useless(thread))
		forget(thread, task);
}

/* Most are nobody's here: one after the other, and no look at the clock for them. */
SEC("tp_btf/sched_switch")
int wakeup_switch(__u64 *ctx)
{
	struct task_struct *prev = ARGUMENT(struct task_struct *, 1);
	struct task_struct *next = ARGUMENT(struct task_struct *, 2);
	struct thread *thread;
	__u64 now_ns = 0;
	enum stop by;

	if (filter.who) {
		now_ns = bpf_ktime_get_ns();
		run_begins(runs_of(current_cpu()), next, now_ns);
	}
	thread = thread_of(prev->pid);
	if (thread && !thread_at_work(thread)) {
		by = stop_of(ctx, thread, prev);
		if (unlikely(by))
			stop_begin(thread, prev, by, now_ns ? now_ns : bpf_ktime_get_ns());
		/* What it asked for may wait for it, in a call that is not looked at, or in none. */
		if (by || !thread->collects)
			thread = NULL;
	}
	if (thread) {
		if (!now_ns)
			now_ns = bpf_ktime_get_ns();
		leaves(ctx, thread, prev, now_ns);
	}
	thread = thread_of(next->pid);
	if (thread && thread->off_ns)
		resumed(thread, next, next->pid, now_ns ? now_ns : bpf_ktime_get_ns());
	else if (thread && unlikely(thread->stopped_ns))
		stop_end(thread, next, now_ns ? now_ns : bpf_ktime_get_ns());
	else if (!thread && next->pid && is_noted(next))
		woken_runs(next->pid, now_ns);
	return 0;
}

/* The CPU that a task is taken from, when sched_migrate_task tells of it. */
static __always_inline __u32 task_cpu(struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return PEEK(task, cpu);
}

/* A thread that waits in one CPU's queue is moved into another's; where it is put when it is
 * woken is none yet. */
SEC("tp_btf/sched_migrate_task")
int wakeup_migrate(__u64 *ctx)
{
	struct task_struct *task = ARGUMENT(struct task_struct *, 0);
	struct thread *thread = thread_of(task->pid);
	__u64 since_ns, now_ns;
	union event *e;
	__u32 cpu;

	if (!filter.who || !thread || !thread->off_ns || !PEEK(task, on_rq))
		return 0;
	since_ns = runnable_since(thread);
	if (!since_ns)
		return 0;
	now_ns = bpf_ktime_get_ns();
	throttle_moved(thread, task, ctx[1], since_ns, now_ns);
	if (since_ns < thread->moved_ns)
		since_ns = thread->moved_ns;
	cpu = task_cpu(task);
	runs_tell(cpu, since_ns, now_ns, 0);
	thread->moved_ns = now_ns;
	e = emit_reserve_at(POINT_sched_moved, now_ns);
	if (!e)
		return 0;
	e->sched_moved.since_ns = since_ns;
	e->sched_moved.subject_tid = task->pid;
	e->sched_moved.from_cpu = cpu;
	emit_submit(e, POINT_sched_moved);
	return 0;
}

/* The current thread lets a recorded one go. */
static __noinline void woken_by_thread(struct thread *thread, struct task_struct *task)
{
	struct thread *waker;

	if (thread->kind != THREAD_HELPER || thread->serves)
		thread_help(0);
	/* A worker of io_uring is still at the request that it lets the submitter go for, and there
	 * may have been no bio before. */
	waker = thread_of(current_tid());
	if (waker) {
		/* Who lets a helper go is of as much use as that one. */
		if (waker->useless_runs > thread->useless_runs)
			waker->useless_runs = thread->useless_runs;
		uring_work_tell(waker, 0);
		thread->waker_other_work = waker_is_at_other_work(waker, task);
	}
	/* The last handle of a transaction that is to be committed. */
	if (filter.who && thread->kind == THREAD_JOURNAL)
		task_tell();
}

/* Who ends a sleep that no other event may explain, as thawing a file system does: told of before. */
static __noinline void waker_tell(struct thread *thread)
{
	if (current_passes_on(thread->off_ns, thread->wake_ns)) {
		thread->waker_context = WAKE_UNKNOWN;
		return;
	}
	task_tell();
	thread->wake_ns = bpf_ktime_get_ns();
}

/* A worker of io_uring, for a recorded thread, told of as that; it waits for a CPU from now on. */
static __always_inline void worker_add(struct task_struct *task)
{
	struct thread *thread = thread_add(task->pid, task->tgid, THREAD_WORKER);

	if (!thread)
		return;
	if (task_announce(thread, task, THREAD_WORKER))
		thread->announced = ANNOUNCED;
	/* It has left no CPU when it runs. */
	thread->off_ns = bpf_ktime_get_ns();
	thread->switches = -1;
}

/* One that was there before the recording: nobody has seen it begin. */
static __noinline void worker_meet(struct task_struct *task)
{
	struct thread *owner = thread_of(uring_owner(task));

	if (owner && owner->kind != THREAD_BESIDE)
		worker_add(task);
}

/* Who lets a thread go that is not off the CPU is kept, too: the last one before it leaves. */
SEC("tp_btf/sched_waking")
int wakeup_waking(__u64 *ctx)
{
	struct task_struct *task = ARGUMENT(struct task_struct *, 0);
	struct thread *thread = thread_of(task->pid);
	enum wake_context context;
	__u32 state;

	if (!thread) {
		if (unlikely(task->flags & PF_IO_WORKER))
			worker_meet(task);
		state = task_state(task);
		/* Before its commit begins, a journal's thread may sleep for what it writes first. */
		if (task->flags & PF_WQ_WORKER || (commits(task) && state & TASK_INTERRUPTIBLE))
			woken_note(ctx, task->pid, state);
		else
			passed_note(ctx, task->pid, state);
		return 0;
	}
	if (thread->off_ns && (!thread->off_state || thread->wake_ns))
		return 0;
	context = wake_context(ctx);
	if (unlikely(thread->timed) && thread->waker_cpu == current_cpu())
		context = WAKE_TIMER;
	thread->waker_other_work = 0;
	if (context == WAKE_THREAD)
		woken_by_thread(thread, task);
	thread->waker_tid = current_tid();
	thread->waker_cpu = current_cpu();
	thread->waker_context = context;
	thread->let_go = 1;
	if (!thread->off_ns)
		return 0;
	throttle_begin(thread, task, queue_of(task));
	thread->wake_ns = bpf_ktime_get_ns();
	if (context == WAKE_THREAD && thread->wake_ns - thread->off_ns >= LONG_SLEEP_NS)
		waker_tell(thread);
	return 0;
}

/* A process tree grows, and so does a virtual machine's process; elsewhere a thread is
 * met at its first call.  io_uring's
 * workers are threads of the process that make no calls, and that
 * sched_process_fork does not tell of. */
PROGRAM("tp_btf/task_newtask", wakeup_newtask, __u64 *ctx)
{
	struct task_struct *child = ARGUMENT(struct task_struct *, 0);
	struct thread *parent = thread_of(current_tid());

	if (!parent)
		return 0;
	if (child->flags & PF_IO_WORKER) {
		worker_add(child);
	} else if (filter.tree && parent->kind <= THREAD_TARGET) {
		thread_add(child->pid, child->tgid, 0);
	} else if (is_of_process(parent->kind) &&
		   (parent->tgid == (__u32)child->tgid || parent->kind == THREAD_DAEMON ||
		    parent->kind == THREAD_LIBRBD)) {
		/* A server's child goes on in its place (daemon(3)), or serves one client.  The
		 * workload's are of the workload, and may well have opened a disk before. */
		thread_add(child->pid, child->tgid, parent->kind);
	}
	return 0;
}

/* A control group that was chosen may be made anew, as a service's is when it is restarted. */
PROGRAM("tp_btf/cgroup_mkdir", wakeup_cgroup_made, __u64 *ctx)
{
	struct cgroup *cgroup = ARGUMENT(struct cgroup *, 0);
	char path[CGROUP_PATH] = {};
	__u64 number = PATH_BASIS;

	/* Of version 2. */
	if (BPF_CORE_READ(cgroup, root, hierarchy_id))
		return 0;
	if (bpf_probe_read_kernel_str(path, sizeof(path), (const void *)ctx[1]) >= CGROUP_PATH)
		return 0;
	for (__u32 i = 0; i < CGROUP_PATH && path[i]; i++)
		number = (number ^ (__u8)path[i]) * PATH_PRIME;
	for (__u32 i = 0; i < MAX_NAMES && i < filter.cgroup_count; i++) {
		if (filter.cgroups[i].path == number)
			chosen_cgroups[i] = BPF_CORE_READ(cgroup, kn, id);
	}
	return 0;
}

/* A process that has just become one that serves others, by its name. */
static __always_inline void meet_by_name(__u32 tid)
{
	for (__u32 duty = 0; duty < DUTY_count; duty++) {
		if (filter.duty[duty].process && current_has_name_of(duty)) {
			thread_remove(tid);
			thread_add(tid, tid, filter.duty[duty].kind);
		}
	}
}

/* A new name: to be announced, and to be held against the filters again.  What served others
 * does so no more. */
static __always_inline void renamed(struct task_struct *task, __u32 old_tid)
{
	__u32 tid = task->pid;
	struct thread *thread = thread_of(old_tid);

	/* Of a process tree that is recorded, all are known. */
	if (current_is_compat() && (thread || !filter.tree))
		compat_begins();
	if (!thread)
		return;
	if (thread->kind > THREAD_TARGET && thread->kind != THREAD_LIBRBD) {
		thread_remove(old_tid);
		return;
	}
	if (old_tid != tid) {
		/* A thread that was not its process's first has taken the first one's tid. */
		thread_remove(old_tid);
		thread_remove(tid);
		thread_add(tid, tid, 0);
		return;
	}
	thread_becomes(thread, 0);
	thread->compat = current_is_compat();
}

PROGRAM("tp_btf/sched_process_exec", wakeup_exec, __u64 *ctx)
{
	struct task_struct *task = ARGUMENT(struct task_struct *, 0);

	renamed(task, ctx[1]);
	task_forget(task->pid);
	if (filter.process_kinds)
		meet_by_name(task->pid);
	return 0;
}

/* Processes of the workload that have opened a disk of Ceph: the recorder attaches to them. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 64);
	__type(value, __u32);
} library_users SEC(".maps");

/* Whether a process of the workload has Ceph's librbd do what it asks of a disk, which takes no
 * system call: a thread of that library's gets its name (TaskFinisher of librbd/TaskFinisher.h). */
static __always_inline bool has_librbd(struct task_struct *task, const char *name)
{
	const struct thread *first = thread_of(task->tgid);
	const __u64 *words = (const __u64 *)name;

	if (words[0] != TASKFIN_ || words[1] != LIBRBD)
		return false;
	if (first)
		return first->kind <= THREAD_TARGET || first->kind == THREAD_LIBRBD;
	return filter.duties & DUTY_BIT(workload) && !filter.tree && comm_matches() &&
	       cgroup_matches();
}

/* Seldom. */
static __noinline void library_is_used(__u32 tgid)
{
	struct thread *first = thread_of(tgid);

	if (filter.library && !first)
		first = thread_add(tgid, tgid, THREAD_LIBRBD);
	if (!filter.library || !first || bpf_map_push_elem(&library_users, &tgid, 0)) {
		not_seen(UNSEEN_LIBRBD, 0);
		return;
	}
	thread_becomes(first, THREAD_LIBRBD);
	ring_wake();
}

/* Itself or a program that it executes: what is recorded of it from now on is of that name.  The
 * task still has the old one here. */
PROGRAM("tp_btf/task_rename", wakeup_rename, __u64 *ctx)
{
	struct task_struct *task = ARGUMENT(struct task_struct *, 0);
	struct thread *thread = thread_of(task->pid);
	char name[sizeof(task->comm)] = {};
	union event *e;

	bpf_probe_read_kernel_str(name, sizeof(name), (const void *)ctx[1]);
	if (has_librbd(task, name))
		library_is_used(task->tgid);
	/* Who has made no call yet is announced by its name at the first one. */
	if (!thread || thread->announced == ANNOUNCED_NEVER)
		return 0;
	e = emit_reserve(POINT_thread);
	if (!e)
		return 0;
	e->thread.tgid = thread->tgid;
	e->thread.subject_tid = task->pid;
	e->thread.kind = thread->kind;
	__builtin_memcpy(e->thread.comm, name, sizeof(e->thread.comm));
	if (task->pid == task->tgid)
		__builtin_memcpy(e->thread.process, e->thread.comm, sizeof(e->thread.process));
	else
		process_comm(task, e->thread.process);
	e->thread.birth = thread_birth(task);
	emit_submit(e, POINT_thread);
	return 0;
}

PROGRAM("tp_btf/sched_process_exit", wakeup_exit, __u64 *ctx)
{
	struct task_struct *task = ARGUMENT(struct task_struct *, 0);

	thread_remove(task->pid);
	task_forget(task->pid);
	return 0;
}
