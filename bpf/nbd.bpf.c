// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Network block devices: a request sent to the server, and its reply's begin (since Linux
 * 2abd2de7db8b, in v5.3).  A request without data passes the first point as well. */
#include "block.bpf.h"

SEC("tp_btf/nbd_payload_sent")
int nbd_payload_sent(__u64 *ctx)
{
	return wire_emit(ARGUMENT(struct request *, 0), ctx[1], POINT_nbd_payload_sent);
}

SEC("tp_btf/nbd_header_received")
int nbd_header_received(__u64 *ctx)
{
	return wire_emit(ARGUMENT(struct request *, 0), ctx[1], POINT_nbd_header_received);
}
