/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which requests are recorded, for the block layer and for the drivers below it. */
#ifndef IOSTRATA_BLOCK_BPF_H
#define IOSTRATA_BLOCK_BPF_H

#include "watch.bpf.h"

/* Writes and flushes; and reads of metadata, for which a write may have to wait. */
static __always_inline bool is_recorded(__u32 flags)
{
	__u32 recorded = 1 << REQ_OP_WRITE | 1 << REQ_OP_FLUSH | 1 << REQ_OP_ZONE_APPEND |
			 1 << REQ_OP_WRITE_ZEROES;
	__u32 operation = flags & REQ_OP_MASK;

	if (operation == REQ_OP_READ)
		return flags & REQ_META;
	return operation < 32 && (recorded >> operation & 1);
}

#endif
