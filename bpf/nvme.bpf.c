// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The initiator of NVMe over TCP: a command set up, about to be sent, sent, its data asked for and
 * sent, complete.  The identifier of a command has a generation in its upper bits (since Linux
 * e7006de6c238, in v5.14), by which alone its number, which is used again at once, is told from the
 * use before; not all of the kernel's own points print it.
 */
#include "nvme.bpf.h"
#include "stand_in.bpf.h"

/* So many requests of one queue are looked through for the one that is sent first. */
#define MAX_QUEUED 128

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nvmf_host {
	uuid_t id;
};

struct nvmf_ctrl_options {
	struct nvmf_host *host;
};

struct nvme_ctrl_ops {
	const char *name;
};

struct nvme_ctrl {
	const struct nvme_ctrl_ops *ops;
	__u16 cntlid;
	struct nvmf_ctrl_options *opts;
};

struct nvme_request {
	struct nvme_command *cmd;
	struct nvme_ctrl *ctrl;
	__u16 status;
};

struct nvme_tcp_queue;

struct nvme_tcp_ctrl {
	struct nvme_tcp_queue *queues; /* the first one is the controller's own */
};

struct list_head {
	struct list_head *next;
};

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

enum nvme_tcp_send_state {
	NVME_TCP_SEND_CMD_PDU = 0,
};

struct nvme_tcp_request {
	struct nvme_request req;
	struct nvme_tcp_queue *queue;
	__u32 pdu_len; /* of the data that go with it now */
	__u64 offset;  /* of its header, what went already */
	struct list_head entry;
	struct llist_node lentry;
	enum nvme_tcp_send_state state;
};

struct nvme_tcp_queue {
	struct socket *sock;
	struct llist_head req_list;
	struct list_head send_list;
	struct nvme_tcp_request *request;
	struct nvme_tcp_ctrl *ctrl;
	_Bool hdr_digest;
	_Bool data_digest;
};

#pragma clang attribute pop

static __always_inline __u32 sizeof_request(void)
{
	return bpf_core_type_size(struct request);
}

/* The driver's part of a request, which lies behind it; NULL: another transport's. */
static __always_inline struct nvme_tcp_request *tcp_request(__u64 request_key)
{
	struct nvme_request *request = (void *)(request_key + sizeof_request());
	char transport[4] = {};

	if (!bpf_core_type_exists(struct nvme_tcp_request))
		return NULL;
	bpf_probe_read_kernel_str(transport, sizeof(transport),
				  BPF_CORE_READ(request, ctrl, ops, name));
	if (transport[0] != 't' || transport[1] != 'c' || transport[2] != 'p')
		return NULL;
	return (struct nvme_tcp_request *)request;
}

static __always_inline struct sock *socket_of(struct nvme_tcp_request *request)
{
	return BPF_CORE_READ(request, queue, sock, sk);
}

PROGRAM("tp_btf/nvme_setup_cmd", nvme_setup, __u64 *ctx)
{
	struct request *rq = ARGUMENT(struct request *, 0);
	struct nvme_command *command = ARGUMENT(struct nvme_command *, 1);

	if (!rq || !command || !tcp_request(argument_key(ctx, 0)))
		return 0;
	return wire_emit(rq, PEEK(command, common.command_id), POINT_nvme_setup_cmd);
}

PROGRAM("tp_btf/nvme_complete_rq", nvme_complete, __u64 *ctx)
{
	struct request *rq = ARGUMENT(struct request *, 0);
	struct nvme_tcp_request *request;
	struct nvme_tcp_queue *queue;
	struct nvme_command *command;
	struct nvme_ctrl *controller;
	struct sock *socket;
	__u64 ready_ns;
	union event *e;
	uuid_t id = {};
	__u32 dev;

	if (!rq || !is_recorded(rq->cmd_flags, rq->bio))
		return 0;
	dev = request_dev(rq, request_queue(rq));
	request = watch_of(dev) & WATCH_DISK ? tcp_request(argument_key(ctx, 0)) : NULL;
	if (!request)
		return 0;
	command = PEEK(request, req.cmd);
	controller = PEEK(request, req.ctrl);
	queue = PEEK(request, queue);
	socket = socket_of(request);
	BPF_CORE_READ_INTO(&id, controller, opts, host, id);
	/* Before the event has its own time: more may come in meanwhile. */
	ready_ns = socket_last_ns(socket);
	e = emit_reserve(POINT_nvme_complete_rq);
	if (!e)
		return 0;
	e->nvme_complete_rq.request_key = argument_key(ctx, 0);
	e->nvme_complete_rq.ready_ns = ready_ns;
	e->nvme_complete_rq.offset_bytes = 0;
	e->nvme_complete_rq.size_bytes = 0;
	e->nvme_complete_rq.dev = dev;
	e->nvme_complete_rq.connection = connection_of(socket);
	e->nvme_complete_rq.ends = ends_of_socket(socket);
	e->nvme_complete_rq.host = host_of(&id);
	e->nvme_complete_rq.controller = PEEK(controller, cntlid);
	e->nvme_complete_rq.queue = ((__u64)queue - (__u64)BPF_CORE_READ(queue, ctrl, queues)) /
				    bpf_core_type_size(struct nvme_tcp_queue);
	e->nvme_complete_rq.command = PEEK(command, common.command_id);
	e->nvme_complete_rq.opcode = PEEK(command, common.opcode);
	e->nvme_complete_rq.failed = !!PEEK(request, req.status);
	emit_submit(e, POINT_nvme_complete_rq);
	return 0;
}

/* What the driver sends next, as it picks it itself (nvme_tcp_fetch_request); NULL: nothing, or it
 * is too far away.  The list without a lock has the last one first. */
static __always_inline struct nvme_tcp_request *next_to_send(struct nvme_tcp_queue *queue)
{
	struct nvme_tcp_request *request = PEEK(queue, request);
	__u64 list = (__u64)queue + bpf_core_field_offset(struct nvme_tcp_queue, send_list);
	struct llist_node *node, *last = NULL;
	__u64 first;

	if (request)
		return request;
	first = (__u64)PEEK(queue, send_list.next);
	if (first != list)
		return (void *)(first - bpf_core_field_offset(struct nvme_tcp_request, entry));
	node = PEEK(queue, req_list.first);
	for (__u32 i = 0; i < MAX_QUEUED && node; i++) {
		last = node;
		node = PEEK(node, next);
	}
	if (node || !last)
		return NULL;
	return (void *)last - bpf_core_field_offset(struct nvme_tcp_request, lentry);
}

/* Where in the stream a command ends that is about to be sent, with the data that go with it. */
static __always_inline void tell_end(struct nvme_tcp_queue *queue, struct nvme_tcp_request *request,
				     __u16 command)
{
	struct sock *socket;
	__u32 data, bytes;

	if (!filter.ports[0] || PEEK(request, offset))
		return;
	socket = socket_of(request);
	if (!stream_is_plain(socket))
		return;
	data = PEEK(request, pdu_len);
	bytes = NVME_TCP_COMMAND_BYTES + data;
	if (PEEK(queue, hdr_digest))
		bytes += NVME_TCP_DIGEST_BYTES;
	if (data && PEEK(queue, data_digest))
		bytes += NVME_TCP_DIGEST_BYTES;
	stream_emit_next(POINT_nvme_stream, command, socket, bytes, connection_of(socket),
			 ends_of_socket(socket));
}

/* What a queue sends, of which one thread at a time has the lock: a command, with the data that go
 * with it, by who set it up, or by the queue's worker; or the data that its target has asked for.
 * What is sent in parts is met here again. */
PROGRAM("fentry/nvme_tcp_try_send", nvme_send, __u64 *ctx)
{
	struct nvme_tcp_queue *queue = (void *)argument_key(ctx, 0);
	struct nvme_tcp_request *request;
	struct transport *transport;
	struct request *rq;
	__u16 command;
	__u32 dev;

	/* A controller's own queue has commands without a request. */
	if (queue == BPF_CORE_READ(queue, ctrl, queues))
		return 0;
	request = next_to_send(queue);
	if (!request)
		return 0;
	rq = (void *)request - sizeof_request();
	dev = recorded_disk_of(rq);
	if (!dev)
		return 0;
	transport = transport_take((__u64)socket_of(request), bpf_ktime_get_ns());
	if (transport)
		transport->sent_key = (__u64)rq;
	if (PEEK(request, state) != NVME_TCP_SEND_CMD_PDU)
		return 0;
	command = BPF_CORE_READ(request, req.cmd, common.command_id);
	wire_tell((__u64)rq, command, dev, POINT_nvme_tcp_send);
	tell_end(queue, request, command);
	return 0;
}

/* All that there was to send of it is with the connection: the queue has nothing begun.  The request
 * itself may be complete by now, and its place another's. */
PROGRAM("fexit/nvme_tcp_try_send", nvme_handed, __u64 *ctx)
{
	struct nvme_tcp_queue *queue = (void *)argument_key(ctx, 0);
	struct transport *transport = transport_find((__u64)BPF_CORE_READ(queue, sock, sk));
	__u64 request_key = transport ? transport->sent_key : 0;
	union event *e;

	if (!request_key)
		return 0;
	transport->sent_key = 0;
	if ((int)ctx[1] <= 0 || PEEK(queue, request))
		return 0;
	e = emit_reserve(POINT_nvme_tcp_handed);
	if (!e)
		return 0;
	e->nvme_tcp_handed.request_key = request_key;
	emit_submit(e, POINT_nvme_tcp_handed);
	return 0;
}

/* Its target asks for its data, of which nothing went yet: what does not fit into one PDU has the
 * next one set up as one is sent. */
PROGRAM("fentry/nvme_tcp_setup_h2c_data_pdu", nvme_asked, __u64 *ctx)
{
	struct nvme_tcp_request *request = (void *)argument_key(ctx, 0);
	struct request *rq = (void *)request - sizeof_request();
	__u64 ready_ns;
	union event *e;

	if (PEEK(request, pdu_len) || !recorded_disk_of(rq))
		return 0;
	/* Before the event has its own time: more may come in meanwhile. */
	ready_ns = socket_last_ns(socket_of(request));
	e = emit_reserve(POINT_nvme_tcp_asked);
	if (!e)
		return 0;
	e->nvme_tcp_asked.request_key = (__u64)rq;
	e->nvme_tcp_asked.ready_ns = ready_ns;
	emit_submit(e, POINT_nvme_tcp_asked);
	return 0;
}

PROGRAM("fentry/nvme_tcp_data_ready", nvme_ready, __u64 *ctx)
{
	return transport_ready(argument_key(ctx, 0), (void *)argument_key(ctx, 0));
}
