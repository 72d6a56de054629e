/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which of 9p's requests are recorded, for the driver below it. */
#ifndef IOSTRATA_NINEP_BPF_H
#define IOSTRATA_NINEP_BPF_H

#include "kernel.bpf.h"

/* Whether there were any: most machines that have such a client have none of it. */
extern bool ninep_used;

/* Whether the client waits for what lies at that address (struct p9_req_t). */
bool ninep_is_asked(__u64 request_key) __hidden;

#endif
