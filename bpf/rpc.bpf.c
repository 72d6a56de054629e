// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* RPC calls of this machine's client: sent, answered, ended; and what they travel on. */
#include "rpc.bpf.h"
#include "stand_in.bpf.h"

#define TELL_NS 1000000000ull
#define QUEUE_NAME 12 /* of the names that matter, with their ends */

PROGRAM("tp_btf/rpc_xdr_sendto", rpc_send, __u64 *ctx)
{
	struct rpc_task *task = ARGUMENT(struct rpc_task *, 0);
	struct rpc_rqst *rqst = task ? task->tk_rqstp : NULL;
	__u64 transport_key;
	__be32 xid;

	if (!rqst)
		return 0;
	transport_key = (__u64)rqst->rq_xprt;
	xid = rqst->rq_xid;
	/* What is sent again, or in parts, was sent when it was sent first. */
	if (!flight_of(transport_key, xid))
		flight_take(transport_key, xid)->send_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline bool is_tcp(struct rpc_xprt *transport)
{
	int protocol = PEEK(transport, prot);

	return protocol == XPRT_TRANSPORT_TCP || protocol == XPRT_TRANSPORT_TCP_TLS;
}

/* The transport's TCP socket, NULL: it has none (now). */
static __always_inline struct sock *socket_of(struct rpc_xprt *transport)
{
	struct sock_xprt *outer;

	if (!is_tcp(transport))
		return NULL;
	outer = (void *)transport - bpf_core_field_offset(struct sock_xprt, xprt);
	return PEEK(outer, inet);
}

/* What its arrivals are noted by: what has no stream may have no socket either. */
static __always_inline __u64 arrivals_of(struct rpc_xprt *transport, struct sock *socket)
{
	return socket ? (__u64)socket : (__u64)transport;
}

PROGRAM("tp_btf/xs_data_ready", rpc_data_ready, __u64 *ctx)
{
	struct rpc_xprt *transport = (void *)argument_key(ctx, 0);
	struct sock *socket = socket_of(transport);

	return transport_ready(arrivals_of(transport, socket), socket);
}

PROGRAM("tp_btf/xprt_lookup_rqst", rpc_reply, __u64 *ctx)
{
	__u64 transport_key = argument_key(ctx, 0);
	struct rpc_xprt *transport = (void *)transport_key;
	int status = ctx[2];
	struct flight *flight;
	struct sock *socket;

	if (status)
		return 0;
	flight = flight_of(transport_key, (__be32)ctx[1]);
	if (!flight)
		return 0;
	socket = socket_of(transport);
	flight->ready_ns =
		transport_came_ns(transport_find(arrivals_of(transport, socket)), socket);
	flight->reply_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void tell(struct sock *socket)
{
	__u64 now = bpf_ktime_get_ns();
	struct transport *transport = socket ? transport_take((__u64)socket, now) : NULL;
	struct tcp_sock *tcp = (struct tcp_sock *)socket;
	struct address local, remote;
	union event *e;

	if (!transport || now - transport->told_ns < TELL_NS)
		return;
	e = emit_reserve(POINT_rpc_connection);
	if (!e)
		return;
	transport->told_ns = now;
	addresses(socket, &local, &remote);
	e->rpc_connection.local_high = local.high;
	e->rpc_connection.local_low = local.low;
	e->rpc_connection.remote_high = remote.high;
	e->rpc_connection.remote_low = remote.low;
	e->rpc_connection.connection = connection_of(socket);
	e->rpc_connection.rtt_us = PEEK(tcp, srtt_us) >> 3;
	e->rpc_connection.rtt_deviation_us = PEEK(tcp, mdev_us) >> 2;
	e->rpc_connection.retransmit_count = PEEK(tcp, total_retrans);
	emit_submit(e, POINT_rpc_connection);
}

int rpc_ended(struct rpc_task *task)
{
	struct rpc_rqst *rqst = PEEK(task, tk_rqstp);
	struct rpc_xprt *transport;
	struct flight *flight;
	struct sock *socket;
	union event *e;

	if (!rqst)
		return 0;
	transport = PEEK(rqst, rq_xprt);
	flight = flight_of((__u64)transport, PEEK(rqst, rq_xid));
	if (!flight)
		return 0;
	socket = socket_of(transport);
	tell(socket);
	e = emit_reserve(POINT_rpc_call);
	if (!e)
		return 0;
	e->rpc_call.call_key = (__u64)task;
	e->rpc_call.send_ns = flight->send_ns;
	e->rpc_call.ready_ns = flight->ready_ns;
	e->rpc_call.reply_ns = flight->reply_ns;
	e->rpc_call.xid = bpf_ntohl(flight->xid);
	e->rpc_call.connection = connection_of(socket);
	e->rpc_call.ends = ends_of_socket(socket);
	emit_submit(e, POINT_rpc_call);
	return 0;
}

static __always_inline int transport_turned(struct rpc_xprt *transport, bool connected)
{
	union event *e;

	if (!transport || !is_tcp(transport))
		return 0;
	e = emit_reserve(POINT_rpc_transport);
	if (!e)
		return 0;
	e->rpc_transport.transport_key = (__u64)transport;
	e->rpc_transport.connection = connection_of(socket_of(transport));
	e->rpc_transport.connected = connected;
	emit_submit(e, POINT_rpc_transport);
	return 0;
}

/* Reached whenever TCP's state has changed: established, or closed by either side. */
PROGRAM("tp_btf/rpc_socket_state_change", rpc_state, __u64 *ctx)
{
	struct rpc_xprt *transport = ARGUMENT(struct rpc_xprt *, 0);
	struct sock *socket = transport ? socket_of(transport) : NULL;

	if (!socket)
		return 0;
	return transport_turned(transport, PEEK(socket, __sk_common.skc_state) == TCP_ESTABLISHED);
}

/* A socket that is given up (no answer for too long) changes its state unheard. */
PROGRAM("tp_btf/xprt_disconnect_done", rpc_disconnected, __u64 *ctx)
{
	return transport_turned(ARGUMENT(struct rpc_xprt *, 0), false);
}

PROGRAM("tp_btf/xprt_retransmit", rpc_resent, __u64 *ctx)
{
	struct rpc_rqst *rqst = ARGUMENT(struct rpc_rqst *, 0);
	struct rpc_xprt *transport = rqst ? rqst->rq_xprt : NULL;
	union event *e = transport ? emit_reserve(POINT_rpc_retransmit) : NULL;

	if (!e)
		return 0;
	e->rpc_retransmit.transport_key = (__u64)transport;
	e->rpc_retransmit.xid = bpf_ntohl(rqst->rq_xid);
	e->rpc_retransmit.connection = connection_of(socket_of(transport));
	emit_submit(e, POINT_rpc_retransmit);
	return 0;
}

static __always_inline bool is_named(const char *name, const char *wanted)
{
	for (__u32 i = 0; i < QUEUE_NAME; i++) {
		if (name[i] != wanted[i])
			return false;
		if (!wanted[i])
			return true;
	}
	return false;
}

/* Queues are told apart by their names alone; most are of calls on their usual way. */
static __always_inline __u32 reason_of(struct rpc_wait_queue *queue)
{
	char name[QUEUE_NAME] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), PEEK(queue, name));
	if (is_named(name, "NFS client"))
		return RPC_WAIT_RECOVERY;
	if (is_named(name, "delayq"))
		return RPC_WAIT_DELAY;
	return 0;
}

static __always_inline int task_waits(__u64 *ctx, bool waits)
{
	struct rpc_wait_queue *queue = ARGUMENT(struct rpc_wait_queue *, 1);
	__u32 reason = queue ? reason_of(queue) : 0;
	union event *e = reason ? emit_reserve(POINT_rpc_wait) : NULL;

	if (!e)
		return 0;
	e->rpc_wait.call_key = argument_key(ctx, 0);
	e->rpc_wait.reason = reason;
	e->rpc_wait.waits = waits;
	emit_submit(e, POINT_rpc_wait);
	return 0;
}

PROGRAM("tp_btf/rpc_task_sleep", rpc_wait_begin, __u64 *ctx)
{
	return task_waits(ctx, true);
}

PROGRAM("tp_btf/rpc_task_wakeup", rpc_wait_end, __u64 *ctx)
{
	return task_waits(ctx, false);
}

/* Its sender still holds the transport: nothing else was handed to the socket. */
PROGRAM("tp_btf/xprt_transmit", rpc_stream, __u64 *ctx)
{
	struct rpc_rqst *rqst = ARGUMENT(struct rpc_rqst *, 0);
	struct rpc_xprt *transport = rqst ? rqst->rq_xprt : NULL;
	struct sock *socket = transport && !(int)ctx[1] ? socket_of(transport) : NULL;

	if (!socket)
		return 0;
	return stream_emit(POINT_rpc_stream, rqst->rq_xid, socket, connection_of(socket),
			   ends_of_socket(socket));
}
