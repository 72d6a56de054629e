/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a task's kernel stack lies. */
#ifndef IOSTRATA_STACK_BPF_H
#define IOSTRATA_STACK_BPF_H

#include "kernel.bpf.h"

/* The smallest of the kernels' task stacks (THREAD_SIZE).  What lies deeper in a larger one is
 * taken for something else, which only makes less of it known. */
#define STACK_BYTES 16384

#endif
