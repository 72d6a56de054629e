// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Network block devices: a request sent to the server, its reply's begin, and the end of what it
 * brings (since Linux 2abd2de7db8b, in v5.3).  A request without data passes the first point as
 * well, and all do the last, which tells nothing more of what writes. */
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

SEC("tp_btf/nbd_payload_received")
int nbd_payload_received(__u64 *ctx)
{
	struct request *rq = ARGUMENT(struct request *, 0);

	if (!rq || (rq->cmd_flags & REQ_OP_MASK) != REQ_OP_READ)
		return 0;
	return wire_emit(rq, ctx[1], POINT_nbd_payload_received);
}
