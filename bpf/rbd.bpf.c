// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Disks of Ceph (the kernel's rbd): the operations on objects that a request is made of, as they
 * are handed to the messenger and answered.  One that spans objects is several.
 */
#include "block.bpf.h"

#define REQUEST_IS_CHILD 1 /* 1 << IMG_REQ_CHILD: made by the driver, for a parent image */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rbd_img_request {
	unsigned long flags;
};

struct rbd_obj_request {
	struct rbd_img_request *img_request;
};

struct ceph_entity_name {
	__u8 type;
	__le64 num;
} __attribute__((packed));

struct ceph_entity_inst {
	struct ceph_entity_name name;
};

struct ceph_messenger {
	struct ceph_entity_inst inst;
};

struct ceph_client {
	struct ceph_messenger msgr;
};

struct ceph_osd_client {
	struct ceph_client *client;
};

struct ceph_osd_request_target {
	int osd;
};

struct ceph_osd_request {
	__u64 r_tid;
	struct ceph_osd_request_target r_t;
	struct ceph_osd_client *r_osdc;
	void *r_priv;
};

#pragma clang attribute pop

/* A request's part of the driver, which lies behind it since Linux 59e542c86924 (in v5.7). */
static __always_inline int tell(struct ceph_osd_request *operation, __u32 point)
{
	struct rbd_obj_request *object = PEEK(operation, r_priv);
	struct rbd_img_request *image = object ? PEEK(object, img_request) : NULL;
	struct request *rq;
	union event *e;
	__u32 dev;

	if (!image || PEEK(image, flags) & REQUEST_IS_CHILD)
		return 0;
	rq = (void *)image - bpf_core_type_size(struct request);
	dev = recorded_disk_of(rq);
	e = dev ? emit_reserve(point) : NULL;
	if (!e)
		return 0;
	e->rbd_sent.request_key = (__u64)rq;
	e->rbd_sent.number = PEEK(operation, r_tid);
	e->rbd_sent.client = BPF_CORE_READ(operation, r_osdc, client, msgr.inst.name.num);
	e->rbd_sent.dev = dev;
	e->rbd_sent.osd_number = PEEK(operation, r_t.osd);
	emit_submit(e, point);
	return 0;
}

/* It has its number only now. */
SEC("fexit/rbd_osd_submit")
int rbd_sent(__u64 *ctx)
{
	return tell((void *)argument_key(ctx, 0), POINT_rbd_sent);
}

SEC("fentry/rbd_osd_req_callback")
int rbd_answered(__u64 *ctx)
{
	return tell((void *)argument_key(ctx, 0), POINT_rbd_answered);
}
