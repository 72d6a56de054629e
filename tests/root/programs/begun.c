// SPDX-License-Identifier: Apache-2.0
/*
 * begun FILE uring|aio: submits an fsync and a synchronous write to it by io_uring, or an fsync by
 * libaio, when it is told to, says so, and collects what it submitted when it is told that.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>

#include "ring.h"

static void said(const char *word)
{
	puts(word);
	fflush(stdout);
	getchar();
}

static void by_uring(int fd)
{
	static char buffer[4096];
	struct io_uring_sqe *entry;

	ring_open(0);
	said("opened");
	ring_add(IORING_OP_FSYNC, fd);
	entry = ring_add(IORING_OP_WRITE, fd);
	entry->addr = (unsigned long)buffer;
	entry->len = sizeof(buffer);
	entry->flags = IOSQE_ASYNC;
	ring_enter(2, 0);
	said("submitted");
	ring_enter(0, 2);
	ring_reap();
}

static void by_aio(int fd)
{
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_FSYNC, .aio_fildes = fd };
	struct iocb *blocks[] = { &block };
	aio_context_t context = 0;
	struct io_event event;

	check(!syscall(SYS_io_setup, 1, &context), "io_setup");
	said("opened");
	check(syscall(SYS_io_submit, context, 1, blocks) == 1, "io_submit");
	said("submitted");
	check(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1, "io_getevents");
	printf("%d\n", (int)event.res);
}

int main(int count, char **words)
{
	int fd = count == 3 ? open(words[1], O_RDWR | O_DSYNC) : -1;

	check(fd >= 0, "open");
	if (words[2][0] == 'a')
		by_aio(fd);
	else
		by_uring(fd);
	return 0;
}
