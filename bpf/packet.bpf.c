// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP's packets of some connections, at each network device that they pass: those to and from the
 * ports that were asked for.  A packet without data is none: what a call consists of is its bytes.
 * Where several were merged (GRO), or are yet to be split (TSO), they are one.
 */
#include "stand_in.bpf.h"
#include "thread.bpf.h"
#include "socket.bpf.h"

#define IPPROTO_TCP 6
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define FRAGMENT_OFFSET 0x1fff

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_device {
	int ifindex;
};

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

#pragma clang attribute pop

struct ipv4_header {
	__u8 version_words;
	__u8 service;
	__be16 total_bytes; /* 0: more than it can tell */
	__be16 id;
	__be16 fragment;
	__u8 hops;
	__u8 protocol;
	__u16 checksum;
	__be32 from;
	__be32 to;
};

struct ipv6_header {
	__be32 version;
	__be16 payload_bytes; /* 0: more than it can tell */
	__u8 protocol;
	__u8 hops;
	struct in6_addr from;
	struct in6_addr to;
};

struct tcp_header {
	__be16 from;
	__be16 to;
	__be32 sequence;
	__be32 acknowledged;
	__u8 words; /* << 4 */
};

struct packet {
	struct address from;
	struct address to;
	unsigned char *tcp; /* NULL: it is none of TCP's */
	__u32 bytes;        /* of TCP's header and data */
};

static __always_inline bool is_asked_for(__be16 port)
{
	for (__u32 i = 0; i < MAX_PORTS; i++) {
		if (filter.ports[i] && filter.ports[i] == bpf_ntohs(port))
			return true;
	}
	return false;
}

/* ``left``: from the header of IP to the packet's end, padding and all. */
static __always_inline void look_at_ipv4(struct packet *packet, unsigned char *at, __u32 left)
{
	struct ipv4_header header;
	__u32 total, words;

	bpf_probe_read_kernel(&header, sizeof(header), at);
	if (header.protocol != IPPROTO_TCP || bpf_ntohs(header.fragment) & FRAGMENT_OFFSET)
		return;
	total = bpf_ntohs(header.total_bytes);
	words = header.version_words & 0xf;
	packet->from = address_of_ipv4(header.from);
	packet->to = address_of_ipv4(header.to);
	packet->tcp = at + words * 4;
	packet->bytes = (total ? total : left) - words * 4;
}

static __always_inline void look_at_ipv6(struct packet *packet, unsigned char *at, __u32 left)
{
	struct ipv6_header header;
	__u32 payload;

	bpf_probe_read_kernel(&header, sizeof(header), at);
	if (header.protocol != IPPROTO_TCP)
		return;
	payload = bpf_ntohs(header.payload_bytes);
	packet->from = address_of_ipv6(&header.from);
	packet->to = address_of_ipv6(&header.to);
	packet->tcp = at + IPV6_BYTES;
	packet->bytes = payload ? payload : left - IPV6_BYTES;
}

static __always_inline int passed(struct sk_buff *skb, unsigned char *at, __u32 point)
{
	__u32 left = PEEK(skb, data) + PEEK(skb, len) - at;
	struct net_device *device = PEEK(skb, dev);
	struct packet packet = {};
	struct tcp_header tcp;
	__u8 version = 0;
	bool to_server;
	union event *e;

	bpf_probe_read_kernel(&version, sizeof(version), at);
	if (version >> 4 == 4)
		look_at_ipv4(&packet, at, left);
	else if (version >> 4 == 6)
		look_at_ipv6(&packet, at, left);
	if (!packet.tcp)
		return 0;
	bpf_probe_read_kernel(&tcp, sizeof(tcp), packet.tcp);
	to_server = is_asked_for(tcp.to);
	if (!to_server && !is_asked_for(tcp.from))
		return 0;
	packet.bytes -= (tcp.words >> 4) * 4;
	if ((__s32)packet.bytes <= 0)
		return 0;
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->packet_sent.sequence = bpf_ntohl(tcp.sequence);
	e->packet_sent.size_bytes = packet.bytes;
	e->packet_sent.device = device ? PEEK(device, ifindex) : 0;
	e->packet_sent.to_server = to_server;
	if (to_server) {
		e->packet_sent.connection = (__u32)bpf_ntohs(tcp.from) << 16 | bpf_ntohs(tcp.to);
		e->packet_sent.ends = ends_of(packet.from, packet.to);
	} else {
		e->packet_sent.connection = (__u32)bpf_ntohs(tcp.to) << 16 | bpf_ntohs(tcp.from);
		e->packet_sent.ends = ends_of(packet.to, packet.from);
	}
	emit_submit(e, point);
	return 0;
}

/* Handed to the driver, behind its queue. */
PROGRAM("tp_btf/net_dev_start_xmit", packet_sent, __u64 *ctx)
{
	struct sk_buff *skb = ARGUMENT(struct sk_buff *, 0);

	return passed(skb, PEEK(skb, head) + PEEK(skb, network_header), POINT_packet_sent);
}

/* The driver has handed it over: its data begins where IP does. */
PROGRAM("tp_btf/netif_receive_skb", packet_received, __u64 *ctx)
{
	struct sk_buff *skb = ARGUMENT(struct sk_buff *, 0);

	return passed(skb, PEEK(skb, data), POINT_packet_received);
}
