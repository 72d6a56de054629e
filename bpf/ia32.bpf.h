/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The system calls of a 32-bit program on x86: their numbers, and where its arguments are. */
#ifndef IOSTRATA_IA32_BPF_H
#define IOSTRATA_IA32_BPF_H

#include "kernel.bpf.h"

/* arch/x86/entry/syscalls/syscall_32.tbl */
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
	COMPAT_SPLICE = 313,
	COMPAT_SYNC_FILE_RANGE = 314,
	COMPAT_FALLOCATE = 324,
	COMPAT_PREADV = 333,
	COMPAT_PWRITEV = 334,
	COMPAT_SYNCFS = 344,
	COMPAT_COPY_FILE_RANGE = 377,
	COMPAT_PREADV2 = 378,
	COMPAT_PWRITEV2 = 379,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long bp;
	unsigned long bx;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
};

#pragma clang attribute pop

#define FIRST(regs) ((regs)->bx)
#define SECOND(regs) ((regs)->cx)
#define THIRD(regs) ((regs)->dx)
#define FOURTH(regs) ((regs)->si)
#define FIFTH(regs) ((regs)->di)
#define SIXTH(regs) ((regs)->bp)

/* A number of 64 bits takes any two registers. */
#define EVEN false

#endif
