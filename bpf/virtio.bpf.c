// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Virtqueues, as a guest's drivers see them: a request is added, the device is told, the
 * device interrupts.  Only queues to which a recorded block request, or one of 9p, has been added.
 */
#include <asm/ptrace.h>
#include <bpf/bpf_tracing.h>

#include "block.bpf.h"
#include "ninep.bpf.h"
#include "stand_in.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct virtqueue {
	void *priv;
};

struct vring_virtqueue {
	struct virtqueue vq;
	unsigned int free_head;
};

struct scsi_cmnd {
	void *device;
};

#pragma clang attribute pop

#define HEAD_UNKNOWN -1u

/* by the address of the queue; the value means nothing */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u32);
} virtio_queues SEC(".maps");

struct notification {
	__u64 queue_key;
	__u64 enter_ns;
};

/* By the address of the task, which the idle tasks have too; enter_ns 0: not under way.  It stays:
 * who adds or deletes has interrupts wait, and is preempted when they come. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct notification);
} virtio_notifications SEC(".maps");

static __always_inline struct gendisk *disk_of(struct request *rq, struct request_queue *queue)
{
	if (bpf_core_field_exists(queue->disk))
		return PEEK(queue, disk);
	return PEEK(rq, rq_disk);
}

/* Whether this is a request to be recorded.  It may be anything: nothing but a request
 * leads to a disk that leads back to the same queue. */
static __always_inline bool is_recorded_request(struct request *rq)
{
	struct request_queue *queue = PEEK(rq, q);
	struct gendisk *disk = queue ? disk_of(rq, queue) : NULL;

	if (!disk || PEEK(disk, queue) != queue)
		return false;
	return is_recorded(PEEK(rq, cmd_flags), PEEK(rq, bio)) &&
	       watch_of((__u32)PEEK(disk, major) << 20 | PEEK(disk, first_minor)) & WATCH_DISK;
}

/* A driver's own data lies behind the block layer's request, or behind SCSI's command
 * that lies there.  0: neither. */
static __always_inline __u64 request_before(__u64 data)
{
	data -= bpf_core_type_size(struct request);
	if (is_recorded_request((struct request *)data))
		return data;
	if (!bpf_core_type_exists(struct scsi_cmnd))
		return 0;
	data -= bpf_core_type_size(struct scsi_cmnd);
	return is_recorded_request((struct request *)data) ? data : 0;
}

/* Where the request's chain of descriptors will begin. */
static __always_inline __u32 next_head(__u64 queue_key)
{
	struct vring_virtqueue *queue;

	if (!bpf_core_field_exists(struct vring_virtqueue, free_head))
		return HEAD_UNKNOWN;
	queue = (void *)queue_key - bpf_core_field_offset(struct vring_virtqueue, vq);
	return PEEK(queue, free_head);
}

static __always_inline int added(__u64 queue_key, __u64 data)
{
	__u64 request_key = request_before(data);
	__u32 nothing = 0;
	union event *e;

	if (!request_key && ninep_used && ninep_is_asked(data))
		request_key = data;
	if (!request_key)
		return 0;
	if (!bpf_map_lookup_elem(&virtio_queues, &queue_key))
		bpf_map_update_elem(&virtio_queues, &queue_key, &nothing, BPF_ANY);
	e = emit_reserve(POINT_virtio_add);
	if (!e)
		return 0;
	e->virtio_add.queue_key = queue_key;
	e->virtio_add.request_key = request_key;
	e->virtio_add.head = next_head(queue_key);
	emit_submit(e, POINT_virtio_add);
	return 0;
}

static __always_inline int notify_begin(__u64 queue_key)
{
	struct notification notification = { .queue_key = queue_key }, *known;
	__u64 task = current_task_key();

	if (!bpf_map_lookup_elem(&virtio_queues, &queue_key))
		return 0;
	notification.enter_ns = bpf_ktime_get_ns();
	known = bpf_map_lookup_elem(&virtio_notifications, &task);
	if (known)
		*known = notification;
	else
		bpf_map_update_elem(&virtio_notifications, &task, &notification, BPF_ANY);
	return 0;
}

static __always_inline int notify_end(void)
{
	__u64 task = current_task_key();
	struct notification *notification = bpf_map_lookup_elem(&virtio_notifications, &task);
	union event *e;

	if (!notification || !notification->enter_ns)
		return 0;
	e = emit_reserve(POINT_virtio_notify);
	if (e) {
		e->virtio_notify.queue_key = notification->queue_key;
		e->virtio_notify.enter_ns = notification->enter_ns;
		emit_submit(e, POINT_virtio_notify);
	}
	notification->enter_ns = 0;
	return 0;
}

static __always_inline int interrupted(__u32 irq, __u64 queue_key)
{
	union event *e;

	if (!bpf_map_lookup_elem(&virtio_queues, &queue_key))
		return 0;
	e = emit_reserve(POINT_virtio_interrupt);
	if (!e)
		return 0;
	e->virtio_interrupt.queue_key = queue_key;
	e->virtio_interrupt.irq = irq;
	emit_submit(e, POINT_virtio_interrupt);
	return 0;
}

PROGRAM("fentry/virtqueue_add_sgs", virtio_add, __u64 *ctx)
{
	return added(ctx[0], ctx[4]);
}

PROGRAM("fentry/virtqueue_notify", virtio_notify_in, __u64 *ctx)
{
	return notify_begin(ctx[0]);
}

PROGRAM("fexit/virtqueue_notify", virtio_notify_out, __u64 *ctx)
{
	(void)ctx;
	return notify_end();
}

PROGRAM("fentry/vring_interrupt", virtio_interrupt, __u64 *ctx)
{
	return interrupted(ctx[0], ctx[1]);
}

/* As above where nothing describes a module's functions (before Linux 36e68442d1af,
 * in v5.11). */
SEC("kprobe/virtqueue_add_sgs")
int virtio_add_blind(struct pt_regs *ctx)
{
	return added(PT_REGS_PARM1(ctx), PT_REGS_PARM5(ctx));
}

SEC("kprobe/virtqueue_notify")
int virtio_notify_in_blind(struct pt_regs *ctx)
{
	return notify_begin(PT_REGS_PARM1(ctx));
}

SEC("kretprobe/virtqueue_notify")
int virtio_notify_out_blind(struct pt_regs *ctx)
{
	(void)ctx;
	return notify_end();
}

SEC("kprobe/vring_interrupt")
int virtio_interrupt_blind(struct pt_regs *ctx)
{
	return interrupted(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx));
}
