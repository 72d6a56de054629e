// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A loop device's kernel worker (since Linux 87579e9b7d8d, in v5.14): from when to when it
 * served which device.  Only while it has a CPU anything goes on there, unless it waits itself.
 */
#include "block.bpf.h"
#include "stand_in.bpf.h"
#include "work.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct loop_device {
	struct workqueue_struct *workqueue;
	struct work_struct rootcg_work;
	struct gendisk *lo_disk;
};

struct loop_worker {
	struct work_struct work;
	struct loop_device *lo;
};

#pragma clang attribute pop

/* The device whose work it may be: of the root cgroup, or of another one, which has a worker of
 * its own.  A device's works are all in its own queue, so that tells whether it is. */
static __always_inline struct loop_device *loop_of(__u64 work, struct workqueue_struct *queue)
{
	struct loop_device *loop;
	struct loop_worker *worker;

	loop = (void *)(work - bpf_core_field_offset(struct loop_device, rootcg_work));
	if (PEEK(loop, workqueue) == queue)
		return loop;
	worker = (void *)(work - bpf_core_field_offset(struct loop_worker, work));
	loop = PEEK(worker, lo);
	return PEEK(loop, workqueue) == queue ? loop : NULL;
}

static __always_inline __u32 loop_dev(__u64 work)
{
	struct worker *worker = current_worker(current_task());
	struct pool_workqueue *pool = PEEK(worker, current_pwq);
	struct workqueue_struct *queue = PEEK(pool, wq);
	struct loop_device *loop = queue ? loop_of(work, queue) : NULL;
	struct gendisk *disk;

	if (!loop)
		return 0;
	disk = PEEK(loop, lo_disk);
	return PEEK(disk, major) << 20 | PEEK(disk, first_minor);
}

/* What works of others do: two that share a place are looked at in turn. */
#define OTHERS_BITS 8

static __u64 others[1 << OTHERS_BITS];

/* Every work of the kernel passes here. */
PROGRAM("tp_btf/workqueue_execute_start", loop_work_start, __u64 *ctx)
{
	struct thread *thread;
	__u64 *other, does;
	__u32 dev;

	if (!watched_loops || !bpf_core_type_exists(struct loop_worker))
		return 0;
	does = (__u64)PEEK(ARGUMENT(struct work_struct *, 0), func);
	other = &others[does * 0x9e3779b97f4a7c15ull >> (64 - OTHERS_BITS)];
	if (likely(*other == does))
		return 0;
	dev = loop_dev(argument_key(ctx, 0));
	if (!dev)
		*other = does;
	if (!dev || !(watch_of(dev) & WATCH_DISK))
		return 0;
	thread_serve();
	thread = thread_of(current_tid());
	if (!thread)
		return 0;
	thread->dev = dev;
	thread->enter_ns = bpf_ktime_get_ns();
	return 0;
}

PROGRAM("tp_btf/workqueue_execute_end", loop_work_end, __u64 *ctx)
{
	struct thread *thread;
	union event *e;

	(void)ctx;
	if (!watched_loops)
		return 0;
	thread = thread_of(current_tid());
	if (!thread || !thread->enter_ns)
		return 0;
	e = emit_reserve(POINT_loop_work);
	if (e) {
		e->loop_work.enter_ns = thread->enter_ns;
		e->loop_work.dev = thread->dev;
		emit_submit(e, POINT_loop_work);
	}
	thread->enter_ns = 0;
	return 0;
}
