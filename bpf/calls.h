/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Of a call that began before it was looked at only its number and arguments are known: which one
 * that is, to the programs and to the recorder.  O_DSYNC is whoever includes this one's. */
#ifndef IOSTRATA_CALLS_H
#define IOSTRATA_CALLS_H

#include <asm/unistd.h>

#include "events.h"

#define MS_SYNC 4

/* 0: none that writes or makes durable. */
static inline __attribute__((always_inline)) unsigned char call_numbered(int number)
{
	switch (number) {
	case __NR_fsync:
		return CALL_FSYNC;
	case __NR_fdatasync:
		return CALL_FDATASYNC;
	case __NR_syncfs:
		return CALL_SYNCFS;
	case __NR_sync:
		return CALL_SYNC;
	case __NR_sync_file_range:
		return CALL_SYNC_FILE_RANGE;
	case __NR_msync:
		return CALL_MSYNC;
	case __NR_write:
		return CALL_WRITE;
	case __NR_writev:
		return CALL_WRITEV;
	case __NR_pwrite64:
		return CALL_PWRITE64;
	case __NR_pwritev:
		return CALL_PWRITEV;
	case __NR_pwritev2:
		return CALL_PWRITEV2;
	case __NR_sendfile:
		return CALL_SENDFILE;
	case __NR_splice:
		return CALL_SPLICE;
	case __NR_copy_file_range:
		return CALL_COPY_FILE_RANGE;
	case __NR_fallocate:
		return CALL_FALLOCATE;
	case __NR_ftruncate:
		return CALL_FTRUNCATE;
	}
	return 0;
}

/* Whether its file's flags decide if it makes durable. */
static inline __attribute__((always_inline)) _Bool call_may_be_plain(unsigned char call)
{
	return call <= CALL_PWRITEV2 || call >= CALL_SENDFILE;
}

static inline __attribute__((always_inline)) unsigned int durable_flags(unsigned char call)
{
	return call == CALL_FTRUNCATE ? OPEN_OF_SYNC_INODE : O_DSYNC | OPEN_OF_SYNC_INODE;
}

#endif
