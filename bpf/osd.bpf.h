/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A daemon of Ceph that has a disk (ceph-osd), as its own functions tell.  What they are given
 * suffices: of all that is read, only the header of a message lies inside an object, and that is
 * what the wire has (struct ceph_msg_header), behind what each message begins with.
 */
#ifndef IOSTRATA_OSD_BPF_H
#define IOSTRATA_OSD_BPF_H

#include <linux/ptrace.h>

#include "thread.bpf.h"

#include <bpf/bpf_tracing.h>

#define TGID_BITS 21
#define ALIGNED_BITS 4

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

/* The daemon's thread; NULL: another process has this file mapped. */
static __always_inline struct thread *osd_thread(void)
{
	struct thread *thread = thread_that_serves();

	if (!thread || thread->kind != THREAD_DAEMON)
		return NULL;
	thread_announce(thread);
	return thread;
}

#endif
