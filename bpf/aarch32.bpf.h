/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The system calls of a 32-bit program on arm64: their numbers, and where its arguments are. */
#ifndef IOSTRATA_AARCH32_BPF_H
#define IOSTRATA_AARCH32_BPF_H

#include "kernel.bpf.h"

/* arch/arm/tools/syscall.tbl */
enum compat_call {
	COMPAT_READ = 3,
	COMPAT_WRITE = 4,
	COMPAT_SYNC = 36,
	COMPAT_FSYNC = 118,
	COMPAT_MSYNC = 144,
	COMPAT_READV = 145,
	COMPAT_WRITEV = 146,
	COMPAT_FDATASYNC = 148,
	COMPAT_PREAD64 = 180,
	COMPAT_PWRITE64 = 181,
	COMPAT_SENDFILE = 187,
	COMPAT_SENDFILE64 = 239,
	COMPAT_SPLICE = 340,
	COMPAT_SYNC_FILE_RANGE = 341, /* sync_file_range2: the flags come second */
	COMPAT_FALLOCATE = 352,
	COMPAT_PREADV = 361,
	COMPAT_PWRITEV = 362,
	COMPAT_SYNCFS = 373,
	COMPAT_COPY_FILE_RANGE = 391,
	COMPAT_PREADV2 = 392,
	COMPAT_PWRITEV2 = 393,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long long regs[31];
};

#pragma clang attribute pop

#define FIRST(registers) ((registers)->regs[0])
#define SECOND(registers) ((registers)->regs[1])
#define THIRD(registers) ((registers)->regs[2])
#define FOURTH(registers) ((registers)->regs[3])
#define FIFTH(registers) ((registers)->regs[4])
#define SIXTH(registers) ((registers)->regs[5])

/* A number of 64 bits takes two registers of which the first is even. */
#define EVEN true

#endif
