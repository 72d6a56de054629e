// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Network block devices: a request sent to the server, its reply's begin, and the end of what it
 * brings (since Linux 2abd2de7db8b, in v5.3).  A request without data passes the first point as
 * well, and all do the last, which tells nothing more of what writes. */
#include "block.bpf.h"
#include "socket.bpf.h"
#include "stand_in.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nbd_sock {
	struct socket *sock;
};

struct nbd_config {
	struct nbd_sock **socks;
};

struct nbd_device {
	struct nbd_config *config;
};

struct nbd_cmd {
	struct nbd_device *nbd;
	int index; /* of the connection that it was sent by last */
};

#pragma clang attribute pop

/* Of a request, behind which its part of the driver lies; NULL: it has none (any more). */
static __always_inline struct sock *socket_of(struct request *rq)
{
	struct nbd_cmd *command = (void *)rq + bpf_core_type_size(struct request);
	struct nbd_sock *connection = NULL, **connections;

	if (!bpf_core_type_exists(struct nbd_cmd))
		return NULL;
	connections = BPF_CORE_READ(command, nbd, config, socks);
	if (!connections)
		return NULL;
	bpf_probe_read_kernel(&connection, sizeof(connection), connections + PEEK(command, index));
	return BPF_CORE_READ(connection, sock, sk);
}

PROGRAM("tp_btf/nbd_payload_sent", nbd_payload_sent, __u64 *ctx)
{
	struct request *rq = (void *)argument_key(ctx, 0);
	__u32 dev = recorded_disk_of(rq);
	struct sock *socket;

	if (!dev)
		return 0;
	/* What comes in on its connection is noted from now on. */
	socket = socket_of(rq);
	if (socket)
		transport_take((__u64)socket, bpf_ktime_get_ns());
	return wire_tell((__u64)rq, ctx[1], dev, POINT_nbd_payload_sent);
}

static __always_inline int answered(struct request *rq, __u64 wire_key, __u32 point)
{
	__u32 dev = recorded_disk_of(rq);
	__u64 ready_ns;
	union event *e;

	if (!dev)
		return 0;
	/* Before the event has its own time: more may come in meanwhile. */
	ready_ns = socket_came_ns(socket_of(rq));
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->nbd_header_received.request_key = (__u64)rq;
	e->nbd_header_received.wire_key = wire_key;
	e->nbd_header_received.ready_ns = ready_ns;
	e->nbd_header_received.dev = dev;
	emit_submit(e, point);
	return 0;
}

PROGRAM("tp_btf/nbd_header_received", nbd_header_received, __u64 *ctx)
{
	return answered((void *)argument_key(ctx, 0), ctx[1], POINT_nbd_header_received);
}

PROGRAM("tp_btf/nbd_payload_received", nbd_payload_received, __u64 *ctx)
{
	struct request *rq = (void *)argument_key(ctx, 0);

	if ((PEEK(rq, cmd_flags) & REQ_OP_MASK) != REQ_OP_READ)
		return 0;
	return answered(rq, ctx[1], POINT_nbd_payload_received);
}
