// SPDX-License-Identifier: Apache-2.0
/*
 * io_uring and libaio in one thread: while it waits in io_getevents, for a pipe that speaks
 * after a while, a worker completes its io_uring write.  Its second context is the one used.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "ring.h"

#define ROUNDS 10

/* A write that a worker of io_uring does. */
static void ring_write(int fd, struct iovec *vector)
{
	struct io_uring_sqe *entry = ring_add(IORING_OP_WRITEV, fd);

	entry->flags = IOSQE_ASYNC;
	entry->addr = (unsigned long)vector;
	entry->len = 1;
	ring_enter(1, 0);
}

static void speak_later(int pipe_end)
{
	if (fork())
		return;
	usleep(100000);
	check(write(pipe_end, "x", 1) == 1, "write");
	_exit(0);
}

static void round_of(aio_context_t context, int aio_fd, int ring_fd)
{
	static char buffer[4096] __attribute__((aligned(4096)));
	struct iovec vector = { buffer, sizeof(buffer) };
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_PWRITE,
			      .aio_fildes = aio_fd,
			      .aio_buf = (unsigned long)buffer,
			      .aio_nbytes = sizeof(buffer) };
	struct iocb wait = { .aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = POLLIN };
	struct iocb *blocks[] = { &block, &wait };
	struct io_event events[2];
	int ends[2];

	check(!pipe(ends), "pipe");
	wait.aio_fildes = ends[0];
	speak_later(ends[1]);
	ring_write(ring_fd, &vector);
	check(syscall(SYS_io_submit, context, 2, blocks) == 2, "io_submit");
	/* io_uring's completion interrupts it. */
	for (int got = 0, count; got<2; got += count> 0 ? count : 0) {
		count = syscall(SYS_io_getevents, context, 2 - got, 2 - got, events, NULL);
		check(count >= 0 || errno == EINTR, "io_getevents");
	}
	ring_reap();
	close(ends[0]);
	close(ends[1]);
	waitpid(-1, NULL, 0);
}

int main(int argc, char **argv)
{
	aio_context_t first = 0, second = 0;
	int aio_fd, ring_fd;

	check(argc == 3, "usage");
	aio_fd = open(argv[1], O_RDWR | O_CREAT | O_DIRECT | O_DSYNC, 0600);
	ring_fd = open(argv[2], O_RDWR | O_CREAT | O_DSYNC, 0600);
	check(aio_fd >= 0 && ring_fd >= 0, "open");
	check(!syscall(SYS_io_setup, 8, &first) && !syscall(SYS_io_setup, 8, &second), "io_setup");
	ring_open(0);
	for (int i = 0; i < ROUNDS; i++)
		round_of(second, aio_fd, ring_fd);
	return 0;
}
