/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes of Ceph, its daemons and those that use its libraries, as their own functions tell.
 * Of a message only its header is looked at, which lies behind what each message begins with, and
 * is what the wire has (struct ceph_msg_header).
 */
#ifndef IOSTRATA_CEPH_BPF_H
#define IOSTRATA_CEPH_BPF_H

#include <linux/ptrace.h>

#include "thread.bpf.h"

#include <bpf/bpf_tracing.h>

#define TGID_BITS 21
#define ALIGNED_BITS 4
/* Of struct Message: its virtual table, its count of references, its context. */
#define MESSAGE_HEADER 24

enum message_type {
	OSD_OP = 42,
	OSD_OPREPLY = 43,
	OSD_REPOP = 112,
	OSD_REPOPREPLY = 113,
};

/* struct ceph_msg_header of linux/ceph/msgr.h */
struct message_header {
	__u64 sequence;
	__u64 number;
	__u16 type;
	__u16 priority;
	__u16 version;
	__u32 front_bytes;
	__u32 middle_bytes;
	__u32 data_bytes;
	__u16 data_offset;
	__u8 source_kind;
	__u64 source;
} __attribute__((packed));

static __always_inline bool read_user(void *to, __u32 size, __u64 address)
{
	return address && !bpf_probe_read_user(to, size, (void *)address);
}

/* What a pointer leads to, 0: nothing. */
static __always_inline __u64 pointed_to(__u64 address)
{
	__u64 value = 0;

	return read_user(&value, sizeof(value), address) ? value : 0;
}

/* An object's place, which another process may have one at as well. */
static __always_inline __u64 object_key(const struct thread *thread, __u64 address)
{
	return address >> ALIGNED_BITS | (__u64)thread->tgid << (64 - TGID_BITS);
}

static __always_inline bool message_header_of(__u64 message, struct message_header *header,
					      __u32 point)
{
	if (read_user(header, sizeof(*header), message + MESSAGE_HEADER))
		return true;
	emit_lost(current_cpu(), point);
	return false;
}

#endif
