// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * --compress: a packet as one frame of zstd, with its size and a checksum of its own.  `zstd -d`
 * makes of a file of them the packets as they were; of one that is cut, whole frames are left.
 */
#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "record.h"

/* Of 64 bytes an event it leaves nine; higher levels hardly fewer, in more time, and those below -1
 * half as many again. */
#define LEVEL 1

static struct {
	ZSTD_CCtx *context;
	uint8_t *bytes;
	size_t room;
} frame;

static bool refused(size_t result)
{
	return ZSTD_isError(result);
}

int frame_begin(void)
{
	frame.room = ZSTD_compressBound(sizeof(struct packet));
	frame.bytes = malloc(frame.room);
	frame.context = ZSTD_createCCtx();
	if (!frame.bytes || !frame.context ||
	    refused(ZSTD_CCtx_setParameter(frame.context, ZSTD_c_compressionLevel, LEVEL)) ||
	    refused(ZSTD_CCtx_setParameter(frame.context, ZSTD_c_checksumFlag, 1)))
		return -ENOMEM;
	return 0;
}

ssize_t frame_make(const uint8_t **bytes, size_t size)
{
	size_t made = ZSTD_compress2(frame.context, frame.bytes, frame.room, *bytes, size);

	/* There is room for all that can be made of a packet: it had no memory. */
	if (refused(made))
		return -ENOMEM;
	*bytes = frame.bytes;
	return made;
}

void frame_end(void)
{
	ZSTD_freeCCtx(frame.context);
	free(frame.bytes);
	frame.context = NULL;
	frame.bytes = NULL;
}
