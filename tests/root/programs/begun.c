// SPDX-License-Identifier: Apache-2.0
/*
 * begun FILE: submits an fsync and a synchronous write to it by io_uring when it is told to, says
 * so, and collects both when it is told that.
 */
#include <fcntl.h>

#include "ring.h"

int main(int count, char **words)
{
	static char buffer[4096];
	int fd = count == 2 ? open(words[1], O_RDWR | O_DSYNC) : -1;
	struct io_uring_sqe *entry;

	check(fd >= 0, "open");
	ring_open(0);
	puts("opened");
	fflush(stdout);
	getchar();
	ring_add(IORING_OP_FSYNC, fd);
	entry = ring_add(IORING_OP_WRITE, fd);
	entry->addr = (unsigned long)buffer;
	entry->len = sizeof(buffer);
	entry->flags = IOSQE_ASYNC;
	ring_enter(2, 0);
	puts("submitted");
	fflush(stdout);
	getchar();
	ring_enter(0, 2);
	ring_reap();
	return 0;
}
