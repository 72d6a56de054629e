/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A TCP connection as both of its ends know it: its ports, and its addresses as one number.
 * And when data came in on it, up to which byte of its stream: that tells when something came that
 * waited there with what came behind it.  It is known by its socket.  The table's places others take
 * over.
 */
#ifndef IOSTRATA_SOCKET_BPF_H
#define IOSTRATA_SOCKET_BPF_H

#include <bpf/bpf_endian.h>

#include "emit.bpf.h"
#include "kernel.bpf.h"
#include "shared.h"

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6

extern __u64 transport_keys[MAX_TRANSPORTS]; /* 0: free; the same index as in transports */

struct transports_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TRANSPORTS);
	__type(key, __u32);
	__type(value, struct transport);
};
extern struct transports_map transports SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	__u8 bytes[16];
};

struct sk_buff;

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
	struct {
		int len; /* 0 only when all that was in it has been taken care of */
		struct sk_buff *tail;
	} sk_backlog;
	__u16 sk_protocol;
};

struct inet_connection_sock {
	const struct tcp_ulp_ops *icsk_ulp_ops;
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

/* What is handed to a socket next, as so many bytes, or was last (0). */
static __always_inline int stream_emit_next(__u32 point, __u32 number, struct sock *socket,
					    __u32 bytes, __u32 connection, __u16 ends)
{
	union event *e = emit_reserve(point);

	if (!e)
		return 0;
	e->rpc_stream.xid = number;
	e->rpc_stream.sequence = stream_end(socket) + bytes;
	e->rpc_stream.connection = connection;
	e->rpc_stream.ends = ends;
	emit_submit(e, point);
	return 0;
}

/* A call, its reply, or a command, which was handed to a socket last. */
static __always_inline int stream_emit(__u32 point, __be32 number, struct sock *socket,
				       __u32 connection, __u16 ends)
{
	return stream_emit_next(point, bpf_ntohl(number), socket, 0, connection, ends);
}

/* Whether what a socket is handed is what goes out, byte by byte: TLS makes more of it. */
static __always_inline bool stream_is_plain(struct sock *socket)
{
	return !PEEK((struct inet_connection_sock *)socket, icsk_ulp_ops);
}

static __always_inline struct transport *transport_at(__u32 place)
{
	return bpf_map_lookup_elem(&transports, &place);
}

static __always_inline __u32 transport_set(__u64 key)
{
	return ((key * 0x9e3779b97f4a7c15ull) >> 56 & (TRANSPORT_SETS - 1)) * TRANSPORT_WAYS;
}

/* NULL: it is not known. */
static __always_inline struct transport *transport_find(__u64 key)
{
	__u32 first = transport_set(key);

	for (__u32 place = first; place < first + TRANSPORT_WAYS; place++) {
		if (transport_keys[place] == key)
			return transport_at(place);
	}
	return NULL;
}

/* In the place of the one that was not used for the longest time, if it is not known. */
static __always_inline struct transport *transport_take(__u64 key, __u64 now_ns)
{
	struct transport *transport = transport_find(key);
	__u32 first = transport_set(key), least = first;
	__u64 used_ns = ~0ull;

	for (__u32 place = first; !transport && place < first + TRANSPORT_WAYS; place++) {
		const struct transport *other = transport_at(place);

		if (other && other->used_ns < used_ns) {
			used_ns = other->used_ns;
			least = place;
		}
	}
	if (!transport) {
		transport = transport_at(least);
		if (!transport)
			return NULL;
		transport_keys[least] = key;
		transport->count = 0;
	}
	transport->used_ns = now_ns;
	return transport;
}

/* Of what is no stream, all that came last is what is read next. */
static __always_inline bool is_stream(struct sock *socket)
{
	return socket && PEEK(socket, sk_protocol) == IPPROTO_TCP;
}

static __always_inline void transport_add(struct transport *transport, __u64 count, __u32 up_to,
					  __u64 now_ns)
{
	transport->came_ns[count % ARRIVALS] = now_ns;
	transport->up_to[count % ARRIVALS] = up_to;
	transport->count = count + 1;
	transport->used_ns = now_ns;
}

/* Up to which byte of its stream data was noted last, of a transport that has any. */
static __always_inline __u32 transport_end(const struct transport *transport)
{
	return transport->up_to[(transport->count - 1) % ARRIVALS];
}

/* Data came in: its receiver is told so while nobody else has the socket.  What came while somebody
 * had it was noted then, and is told of now, one piece after the other. */
static __always_inline void transport_note(struct transport *transport, struct sock *socket,
					   __u64 now_ns)
{
	bool stream = is_stream(socket);
	__u32 up_to = stream ? PEEK((struct tcp_sock *)socket, rcv_nxt) : 0;
	__u64 count = stream ? transport->count : 0;
	__s32 ahead = count ? up_to - transport_end(transport) : 1;

	if (!ahead || (ahead < 0 && PEEK(socket, sk_backlog.len)))
		return;
	/* A stream's numbers grow: what goes back is another connection's. */
	transport_add(transport, ahead < 0 ? 0 : count, up_to, now_ns);
}

static __always_inline int transport_ready(__u64 key, struct sock *socket)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct transport *transport = transport_take(key, now_ns);

	if (transport)
		transport_note(transport, socket, now_ns);
	return 0;
}

/* Of a socket that somebody has taken a place for, by its own call that data is there. */
static __always_inline int socket_note(struct sock *socket)
{
	struct transport *transport = transport_find((__u64)socket);

	if (transport)
		transport_note(transport, socket, bpf_ktime_get_ns());
	return 0;
}

/* When a stream had come in up to a byte of it, 0: not known.  Of what waits in the socket for
 * longer than its last ARRIVALS, no earlier than the first of these. */
static __always_inline __u64 transport_reached_ns(const struct transport *transport, __u32 up_to)
{
	__u64 count = transport ? transport->count : 0, found = count - 1;

	if (!count || (__s32)(transport_end(transport) - up_to) < 0)
		return 0;
#pragma clang loop unroll(full)
	for (__u32 step = ARRIVALS / 2; step; step /= 2) {
		if (found >= step &&
		    (__s32)(transport->up_to[(found - step) % ARRIVALS] - up_to) >= 0)
			found -= step;
	}
	return transport->came_ns[found % ARRIVALS];
}

/* When the last byte came in that was read from a socket so far, 0: not known. */
static __always_inline __u64 transport_came_ns(const struct transport *transport,
					       struct sock *socket)
{
	__u32 read = is_stream(socket) ? PEEK((struct tcp_sock *)socket, copied_seq) : 0;

	return transport_reached_ns(transport, read);
}

static __always_inline __u64 socket_came_ns(struct sock *socket)
{
	return socket ? transport_came_ns(transport_find((__u64)socket), socket) : 0;
}

/* When the last byte came in that can be read from a socket, 0: not known.  What waits in its
 * backlog cannot. */
static __always_inline __u64 socket_last_ns(struct sock *socket)
{
	const struct transport *transport = socket ? transport_find((__u64)socket) : NULL;
	__u32 up_to = is_stream(socket) ? PEEK((struct tcp_sock *)socket, rcv_nxt) : 0;

	if (!transport || !transport->count)
		return 0;
	/* The receiver may not have been told yet. */
	if ((__s32)(transport_end(transport) - up_to) < 0)
		up_to = transport_end(transport);
	return transport_reached_ns(transport, up_to);
}

#endif
