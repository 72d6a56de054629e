/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A daemon of Ceph that has a disk (ceph-osd).  What its functions are given suffices. */
#ifndef IOSTRATA_OSD_BPF_H
#define IOSTRATA_OSD_BPF_H

#include "ceph.bpf.h"

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
