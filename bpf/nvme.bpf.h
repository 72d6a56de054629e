/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Commands of NVMe, as its drivers have them. */
#ifndef IOSTRATA_NVME_BPF_H
#define IOSTRATA_NVME_BPF_H

#include "block.bpf.h"
#include "socket.bpf.h"

#define NVME_SGL_ASKED_FOR \
	0x5a /* its target asks for a command's data, which does not come with it */
#define NVME_TCP_COMMAND_BYTES 72
#define NVME_TCP_RESPONSE_BYTES 24
#define NVME_TCP_DIGEST_BYTES 4

enum nvme_opcode {
	NVME_FLUSH = 0x00,
	NVME_WRITE = 0x01,
	NVME_READ = 0x02,
	NVME_WRITE_ZEROES = 0x08,
	NVME_DSM = 0x09, /* discards */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	__u8 b[16];
} uuid_t;

struct nvme_sgl_desc {
	__u8 type;
};

union nvme_data_ptr {
	struct nvme_sgl_desc sgl;
};

struct nvme_common_command {
	__u8 opcode;
	__u16 command_id;
	union nvme_data_ptr dptr;
};

struct nvme_rw_command {
	__le64 slba;
	__le16 length; /* in blocks, less one */
	__le16 control;
};

struct nvme_command {
	union {
		struct nvme_common_command common;
		struct nvme_rw_command rw;
	};
};

#pragma clang attribute pop

/* As in struct nvme_event. */
static __always_inline __u16 host_of(const uuid_t *id)
{
	__u64 halves[2], hash;

	__builtin_memcpy(halves, id, sizeof(halves));
	hash = (halves[0] * 0x9e3779b97f4a7c15ull + halves[1]) * 0x9e3779b97f4a7c15ull;
	return hash >> 48;
}

#endif
