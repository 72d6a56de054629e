/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which requests are recorded, for the block layer and for the drivers below it. */
#ifndef IOSTRATA_BLOCK_BPF_H
#define IOSTRATA_BLOCK_BPF_H

#include "reads.bpf.h"
#include "watch.bpf.h"

/* Writes and flushes; and what a write may have to wait for: reads of metadata, and of what it
 * changes a part of, discards of what held some, and with --who whatever else the disk does before
 * it. Of a read that is recorded the data may be on its way for another already. */
static __always_inline bool is_recorded(__u32 flags, struct bio *bio)
{
	__u32 recorded = 1 << REQ_OP_WRITE | 1 << REQ_OP_FLUSH | 1 << REQ_OP_ZONE_APPEND |
			 1 << REQ_OP_WRITE_ZEROES | 1 << REQ_OP_DISCARD;
	__u32 operation = flags & REQ_OP_MASK;

	if (operation == REQ_OP_READ)
		return filter.who || filter.reads || !is_data_read(flags) || read_is_noted(bio);
	return operation < 32 && (recorded >> operation & 1);
}

/* A request's queue, to be asked for before anything else of it (see bio_dev_at_once). */
static __always_inline struct request_queue *request_queue(struct request *rq)
{
	struct request_queue *queue = rq->q;

	barrier_var(queue);
	return queue;
}

static __always_inline __u32 request_dev(struct request *rq, struct request_queue *queue)
{
	if (bpf_core_field_exists(queue->disk))
		return disk_dev(queue->disk);
	return disk_dev(rq->rq_disk);
}

/* The same through a pointer that the verifier does not know the type of. */
static __always_inline __u32 request_dev_of(struct request *rq)
{
	if (bpf_core_field_exists(rq->q->disk))
		return disk_dev_of(BPF_CORE_READ(rq, q, disk));
	return disk_dev_of(PEEK(rq, rq_disk));
}

/* The watched disk of a request that is recorded, through such a pointer; 0: it is none. */
static __always_inline __u32 recorded_disk_of(struct request *rq)
{
	__u32 dev;

	if (!is_recorded(PEEK(rq, cmd_flags), PEEK(rq, bio)))
		return 0;
	dev = request_dev_of(rq);
	return watch_of(dev) & WATCH_DISK ? dev : 0;
}

static __always_inline int wire_tell(__u64 request_key, __u64 wire_key, __u32 dev, __u32 point)
{
	union event *e = emit_reserve(point);

	if (!e)
		return 0;
	e->nbd_payload_sent.request_key = request_key;
	e->nbd_payload_sent.wire_key = wire_key;
	e->nbd_payload_sent.dev = dev;
	emit_submit(e, point);
	return 0;
}

/* A driver that hands requests to another machine says where one is.  Of a module's tracepoints the
 * verifier takes no argument for granted (since Linux 838a10bd2ebf, in v6.13). */
static __always_inline int wire_emit(struct request *rq, __u64 wire_key, __u32 point)
{
	struct request_queue *queue;
	__u32 dev;

	if (!rq)
		return 0;
	queue = request_queue(rq);
	if (!is_recorded(rq->cmd_flags, rq->bio))
		return 0;
	dev = request_dev(rq, queue);
	return watch_of(dev) & WATCH_DISK ? wire_tell((__u64)rq, wire_key, dev, point) : 0;
}

#endif
