/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whoever syncs a file of a btrfs writes the file system's log, or commits its transaction, for all
 * who sync there, and they wait for that: no thread of the kernel's does it.  So what a thread does
 * meanwhile is recorded, though its calls are not.
 */
#ifndef IOSTRATA_BESIDE_BPF_H
#define IOSTRATA_BESIDE_BPF_H

#include "thread.bpf.h"

/* The current thread, in none of its calls that are recorded, is at what the syncs of a file system
 * there wait for (btrfs.bpf.c).  Not hidden: see watch_add. */
int beside_begin(__u32 dev);

/* It is so no more: it is behind the call that it was in, or, as a worker of io_uring, has nothing to
 * do (btrfs.bpf.c). */
int beside_end(void);

#endif
