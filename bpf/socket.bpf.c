// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * When data comes in on a connection that calls, commands or answers come by: of whoever receives
 * on this machine, by any protocol.  Drivers that are told so themselves have points of their own.
 */
#include "socket.bpf.h"
#include "stand_in.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff {
	char cb[48];
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq; /* of the byte behind its last one */
};

#pragma clang attribute pop

PROGRAM("fentry/sock_def_readable", socket_ready, __u64 *ctx)
{
	return socket_note((void *)argument_key(ctx, 0));
}

/*
 * While a thread has a socket for itself (it receives or sends, and may have lost its CPU amid that)
 * what comes in waits in the backlog, and the receiver is told of it when that thread lets go: it is
 * there nevertheless.  What was refused has not become the last piece, nor does it reach further.
 */
PROGRAM("fexit/tcp_add_backlog", socket_backlog, __u64 *ctx)
{
	__u64 key = argument_key(ctx, 0);
	struct transport *transport = transport_find(key);
	struct sock *socket = (void *)key;
	struct tcp_skb_cb *piece;
	__u32 there, up_to;
	__u64 last;

	if (!transport)
		return 0;
	last = (__u64)PEEK(socket, sk_backlog.tail);
	if (!last)
		return 0;
	piece = (void *)last + bpf_core_field_offset(struct sk_buff, cb);
	there = PEEK((struct tcp_sock *)socket, rcv_nxt);
	if (transport->count && (__s32)(transport_end(transport) - there) > 0)
		there = transport_end(transport);
	up_to = PEEK(piece, end_seq);
	/* What is behind a gap in the stream is there only once that is filled. */
	if ((__s32)(PEEK(piece, seq) - there) <= 0 && (__s32)(up_to - there) > 0)
		transport_add(transport, transport->count, up_to, bpf_ktime_get_ns());
	return 0;
}
