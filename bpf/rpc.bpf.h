/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RPC's transports and the calls that are in flight on them.  Both tables are
 * of fixed places that the next one takes over: nothing is ever freed.
 */
#ifndef IOSTRATA_RPC_BPF_H
#define IOSTRATA_RPC_BPF_H

#include "socket.bpf.h"
#include "watch.bpf.h"

#define TCP_ESTABLISHED 1
#define XPRT_TRANSPORT_TCP 6
#define XPRT_TRANSPORT_TCP_TLS 258

extern struct flight flights[FLIGHT_SETS * FLIGHT_WAYS];

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rpc_xprt {
	int prot;
};

struct sock_xprt {
	struct rpc_xprt xprt;
	struct sock *inet;
};

struct rpc_rqst {
	struct rpc_xprt *rq_xprt;
	struct rpc_task *rq_task;
	__be32 rq_xid;
};

struct rpc_procinfo {
	const char *p_name;
};

struct rpc_message {
	const struct rpc_procinfo *rpc_proc;
};

struct rpc_task {
	struct rpc_message tk_msg;
	struct rpc_rqst *tk_rqstp;
};

struct rpc_wait_queue {
	const char *name;
};

#pragma clang attribute pop

/* A transport's xids count up as this processor reads them. */
static __always_inline struct flight *flight_place(__be32 xid, __u32 way)
{
	return &flights[((__u32)xid & (FLIGHT_SETS - 1)) * FLIGHT_WAYS + way];
}

/* The call, NULL: it was not seen being sent. */
static __always_inline struct flight *flight_of(__u64 transport_key, __be32 xid)
{
	for (__u32 way = 0; way < FLIGHT_WAYS; way++) {
		struct flight *flight = flight_place(xid, way);

		if (flight->xid == xid && flight->transport_key == transport_key)
			return flight;
	}
	return NULL;
}

/* The place of a new call: the one whose call was sent longest ago. */
static __always_inline struct flight *flight_take(__u64 transport_key, __be32 xid)
{
	struct flight *oldest = flight_place(xid, 0);

	for (__u32 way = 1; way < FLIGHT_WAYS; way++) {
		struct flight *flight = flight_place(xid, way);

		if (flight->send_ns < oldest->send_ns)
			oldest = flight;
	}
	oldest->transport_key = transport_key;
	oldest->xid = xid;
	oldest->ready_ns = 0;
	oldest->reply_ns = 0;
	return oldest;
}

/* Records the call of a task that has ended, if it was seen being sent. */
int rpc_ended(struct rpc_task *task) __hidden;

#endif
