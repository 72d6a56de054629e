/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RPC's transports and the calls that are in flight on them.  Both tables are
 * of fixed places that the next one takes over: nothing is ever freed.
 */
#ifndef IOSTRATA_RPC_BPF_H
#define IOSTRATA_RPC_BPF_H

#include <bpf/bpf_endian.h>

#include "watch.bpf.h"

#define AF_INET 2
#define AF_INET6 10
#define TCP_ESTABLISHED 1
#define XPRT_TRANSPORT_TCP 6
#define XPRT_TRANSPORT_TCP_TLS 258

extern struct transport transports[MAX_TRANSPORTS];
extern struct flight flights[FLIGHT_SETS * FLIGHT_WAYS];

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	__u8 bytes[16];
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct tcp_sock {
	__u32 srtt_us; /* << 3 */
	__u32 mdev_us; /* << 2 */
	__u32 total_retrans;
};

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

struct rpc_task {
	struct rpc_rqst *tk_rqstp;
};

struct rpc_wait_queue {
	const char *name;
};

#pragma clang attribute pop

/* An IPv6 address, or an IPv4 one mapped into it, in host order. */
struct address {
	__u64 high;
	__u64 low;
};

static __always_inline struct address address_of_ipv4(__be32 address)
{
	return (struct address){ 0, 0xffffull << 32 | bpf_ntohl(address) };
}

static __always_inline struct address address_of_ipv6(const struct in6_addr *address)
{
	const __u64 *halves = (const __u64 *)address;

	return (struct address){ bpf_be64_to_cpu(halves[0]), bpf_be64_to_cpu(halves[1]) };
}

/* As in struct rpc_event. */
static __always_inline __u16 ends_of(struct address client, struct address server)
{
	const __u64 odd = 0x9e3779b97f4a7c15ull;
	__u64 hash = client.high;

	hash = hash * odd + client.low;
	hash = hash * odd + server.high;
	hash = (hash * odd + server.low) * odd;
	hash = (hash ^ hash >> 32) * odd >> 48;
	return hash ? hash : 1;
}

static __always_inline struct transport *transport_place(__u64 key)
{
	return &transports[(key * 0x9e3779b97f4a7c15ull) >> 56 & (MAX_TRANSPORTS - 1)];
}

static __always_inline struct transport *transport_take(__u64 key)
{
	struct transport *transport = transport_place(key);

	if (transport->key != key) {
		transport->ready_ns = 0;
		transport->key = key;
	}
	return transport;
}

/* When data came in last; 0: not known. */
static __always_inline __u64 transport_ready_ns(__u64 key)
{
	const struct transport *transport = transport_place(key);

	return transport->key == key ? transport->ready_ns : 0;
}

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
