// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Disks of Ceph (the kernel's rbd): the operations on objects that a request is made of, as they
 * are handed to the messenger, sent by its worker, read by it, and answered.  One that spans objects
 * is several.
 */
#include "block.bpf.h"
#include "socket.bpf.h"
#include "stand_in.bpf.h"

#define REQUEST_IS_CHILD 1     /* 1 << IMG_REQ_CHILD: made by the driver, for a parent image */
#define WRITE_PENDING (1 << 2) /* CEPH_CON_F_WRITE_PENDING */
#define OSD_OPREPLY 43         /* a type of messages: CEPH_MSG_OSD_OPREPLY */

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

struct ceph_connection {
	void *private;
	unsigned long flags;
	struct socket *sock;
};

struct ceph_osd {
	struct ceph_osd_client *o_osdc;
	struct ceph_connection o_con;
};

struct ceph_msg_header {
	__le64 tid;
	__le16 type;
} __attribute__((packed));

struct ceph_msg {
	struct ceph_msg_header hdr;
	struct ceph_connection *con;
};

struct ceph_osd_request_target {
	int osd;
};

struct ceph_osd_request {
	__u64 r_tid;
	struct ceph_osd_request_target r_t;
	struct ceph_osd *r_osd;
	struct ceph_osd_client *r_osdc;
	void *r_priv;
};

#pragma clang attribute pop

/* What is under way; who goes without an answer makes room in time. */
struct operation {
	__u64 number;
	__u64 client;
};

struct under_way {
	__u64 request_key;
	__u64 ready_ns;
	__u64 connection_key;
	__u32 dev;
	__s32 osd_number;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct operation);
	__type(value, struct under_way);
} rbd_operations SEC(".maps");

static __always_inline int tell(const struct operation *operation, const struct under_way *told,
				__u32 point)
{
	union event *e = emit_reserve(point);

	if (!e)
		return 0;
	e->rbd_sent.request_key = told->request_key;
	e->rbd_sent.number = operation->number;
	e->rbd_sent.client = operation->client;
	e->rbd_sent.ready_ns = told->ready_ns;
	e->rbd_sent.connection_key = told->connection_key;
	e->rbd_sent.dev = told->dev;
	e->rbd_sent.osd_number = told->osd_number;
	emit_submit(e, point);
	return 0;
}

/* A request's part of the driver, which lies behind it since Linux 59e542c86924 (in v5.7). */
static __always_inline bool describe(struct ceph_osd_request *from, struct operation *operation,
				     struct under_way *told)
{
	struct rbd_obj_request *object = PEEK(from, r_priv);
	struct rbd_img_request *image = object ? PEEK(object, img_request) : NULL;
	struct request *rq;

	if (!image || PEEK(image, flags) & REQUEST_IS_CHILD)
		return false;
	rq = (void *)image - bpf_core_type_size(struct request);
	operation->number = PEEK(from, r_tid);
	operation->client = BPF_CORE_READ(from, r_osdc, client, msgr.inst.name.num);
	told->request_key = (__u64)rq;
	told->ready_ns = 0;
	told->connection_key = 0;
	told->dev = recorded_disk_of(rq);
	told->osd_number = PEEK(from, r_t.osd);
	return told->dev;
}

/* It has its number only now.  What comes in on its connection is noted from then on. */
PROGRAM("fexit/rbd_osd_submit", rbd_sent, __u64 *ctx)
{
	struct ceph_osd_request *from = (void *)argument_key(ctx, 0);
	struct operation operation;
	struct under_way told;
	__u64 key;

	if (!describe(from, &operation, &told))
		return 0;
	bpf_map_update_elem(&rbd_operations, &operation, &told, BPF_ANY);
	key = (__u64)BPF_CORE_READ(from, r_osd, o_con.sock, sk);
	if (key)
		transport_take(key, bpf_ktime_get_ns());
	return tell(&operation, &told, POINT_rbd_sent);
}

static __always_inline struct operation operation_of(struct ceph_connection *connection,
						     struct ceph_msg *message)
{
	struct ceph_osd *osd = PEEK(connection, private);
	struct operation operation = {
		PEEK(message, hdr.tid),
		BPF_CORE_READ(osd, o_osdc, client, msgr.inst.name.num),
	};

	return operation;
}

/* A worker of the messenger has come to it, and begins to send it. */
PROGRAM("fentry/osd_reencode_message", rbd_message, __u64 *ctx)
{
	struct ceph_msg *message = (void *)argument_key(ctx, 0);
	struct ceph_connection *connection = PEEK(message, con);
	struct operation operation = operation_of(connection, message);
	struct under_way *told = bpf_map_lookup_elem(&rbd_operations, &operation);
	struct transport *transport;

	if (!told)
		return 0;
	transport = transport_find((__u64)BPF_CORE_READ(connection, sock, sk));
	if (transport)
		transport->sent_key = (__u64)connection;
	told->connection_key = (__u64)connection;
	return tell(&operation, told, POINT_rbd_message);
}

/* It has sent all that there was: it returns the same where the socket takes no more. */
static __always_inline int all_sent(__u64 *ctx)
{
	struct ceph_connection *connection = (void *)argument_key(ctx, 0);
	struct transport *transport = transport_find((__u64)BPF_CORE_READ(connection, sock, sk));
	const struct operation none = {};
	const struct under_way told = { .connection_key = (__u64)connection };

	if ((int)ctx[1] || PEEK(connection, flags) & WRITE_PENDING || !transport ||
	    !transport->sent_key)
		return 0;
	transport->sent_key = 0;
	return tell(&none, &told, POINT_rbd_handed);
}

PROGRAM("fexit/ceph_con_v1_try_write", rbd_handed_v1, __u64 *ctx)
{
	return all_sent(ctx);
}

PROGRAM("fexit/ceph_con_v2_try_write", rbd_handed_v2, __u64 *ctx)
{
	return all_sent(ctx);
}

/* One has read the whole answer: who waits for that is told by another worker. */
PROGRAM("fentry/osd_dispatch", rbd_reply, __u64 *ctx)
{
	struct ceph_connection *connection = (void *)argument_key(ctx, 0);
	struct ceph_msg *message = (void *)argument_key(ctx, 1);
	struct sock *socket = BPF_CORE_READ(connection, sock, sk);
	struct operation operation;
	struct under_way *told;

	if (PEEK(message, hdr.type) != OSD_OPREPLY)
		return 0;
	operation = operation_of(connection, message);
	told = bpf_map_lookup_elem(&rbd_operations, &operation);
	if (told)
		told->ready_ns = socket_came_ns(socket) ?: bpf_ktime_get_ns();
	return 0;
}

PROGRAM("fentry/ceph_sock_data_ready", rbd_ready, __u64 *ctx)
{
	return socket_note((void *)argument_key(ctx, 0));
}

PROGRAM("fentry/rbd_osd_req_callback", rbd_answered, __u64 *ctx)
{
	struct ceph_osd_request *from = (void *)argument_key(ctx, 0);
	struct operation operation;
	struct under_way told;
	const struct under_way *known;

	if (!describe(from, &operation, &told))
		return 0;
	known = bpf_map_lookup_elem(&rbd_operations, &operation);
	if (known)
		told.ready_ns = known->ready_ns;
	bpf_map_delete_elem(&rbd_operations, &operation);
	return tell(&operation, &told, POINT_rbd_answered);
}
