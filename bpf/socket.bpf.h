/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A TCP connection as both of its ends know it: its ports, and its addresses as one number.
 * And when data came in on it, in a table of fixed places that the next one takes over.
 */
#ifndef IOSTRATA_SOCKET_BPF_H
#define IOSTRATA_SOCKET_BPF_H

#include <bpf/bpf_endian.h>

#include "emit.bpf.h"
#include "kernel.bpf.h"
#include "shared.h"

#define AF_INET 2
#define AF_INET6 10

extern struct transport transports[MAX_TRANSPORTS];

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
	__u32 write_seq;  /* of the first byte that nobody has handed over yet */
	__u32 rcv_nxt;    /* of the first byte that is not there yet */
	__u32 copied_seq; /* of the first byte that nobody has read yet */
};

struct socket {
	struct sock *sk;
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

static __always_inline __u32 connection_of(struct sock *socket)
{
	if (!socket)
		return 0;
	return (__u32)PEEK(socket, __sk_common.skc_num) << 16 |
	       bpf_ntohs(PEEK(socket, __sk_common.skc_dport));
}

static __always_inline void addresses(struct sock *socket, struct address *local,
				      struct address *remote)
{
	struct in6_addr from, to;

	if (PEEK(socket, __sk_common.skc_family) == AF_INET) {
		*local = address_of_ipv4(PEEK(socket, __sk_common.skc_rcv_saddr));
		*remote = address_of_ipv4(PEEK(socket, __sk_common.skc_daddr));
		return;
	}
	bpf_core_read(&from, sizeof(from), &socket->__sk_common.skc_v6_rcv_saddr);
	bpf_core_read(&to, sizeof(to), &socket->__sk_common.skc_v6_daddr);
	*local = address_of_ipv6(&from);
	*remote = address_of_ipv6(&to);
}

/* Of a transport without a connection now: not known. */
static __always_inline __u16 ends_of_socket(struct sock *socket)
{
	struct address local, remote;

	if (!socket)
		return 0;
	addresses(socket, &local, &remote);
	return ends_of(local, remote);
}

/* Both of the same connection as its server's socket has them. */
static __always_inline __u32 connection_served(struct sock *socket)
{
	__u32 connection = connection_of(socket);

	return connection << 16 | connection >> 16;
}

static __always_inline __u16 ends_served(struct sock *socket)
{
	struct address local, remote;

	if (!socket)
		return 0;
	addresses(socket, &local, &remote);
	return ends_of(remote, local);
}

/* Where in its stream what was handed to a socket last ends. */
static __always_inline __u32 stream_end(struct sock *socket)
{
	return PEEK((struct tcp_sock *)socket, write_seq);
}

/* A call, its reply, or a command, which was handed to a socket last. */
static __always_inline int stream_emit(__u32 point, __be32 number, struct sock *socket,
				       __u32 connection, __u16 ends)
{
	union event *e = emit_reserve(point);

	if (!e)
		return 0;
	e->rpc_stream.xid = bpf_ntohl(number);
	e->rpc_stream.sequence = stream_end(socket);
	e->rpc_stream.connection = connection;
	e->rpc_stream.ends = ends;
	emit_submit(e, point);
	return 0;
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

/* When data came in last, as was noted; 0: not known. */
static __always_inline __u64 transport_ready_ns(__u64 key)
{
	const struct transport *transport = transport_place(key);

	return transport->key == key ? transport->ready_ns : 0;
}

#endif
