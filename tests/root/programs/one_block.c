// SPDX-License-Identifier: Apache-2.0
/*
 * libaio's requests by one control block, which is used again while they are under way: the kernel
 * has copied it.  Prints how many nanoseconds all of them took together.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 50
#define LARGE (1 << 20)

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static unsigned long long submit(aio_context_t context, struct iocb *block, unsigned int bytes)
{
	unsigned long long begin = now_ns();

	block->aio_nbytes = bytes;
	check(syscall(SYS_io_submit, context, 1, &block) == 1, "io_submit");
	return begin;
}

int main(int argc, char **argv)
{
	static char buffer[LARGE] __attribute__((aligned(4096)));
	unsigned long long took = 0;
	struct io_event event;
	aio_context_t context = 0;
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_buf = (unsigned long)buffer };
	unsigned int sizes[] = { LARGE, 4096, 4096 };

	check(argc == 2, "usage");
	block.aio_fildes = open(argv[1], O_RDWR | O_CREAT | O_DIRECT | O_DSYNC, 0600);
	check((int)block.aio_fildes >= 0, "open");
	check(!syscall(SYS_io_setup, 8, &context), "io_setup");
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < 3; k++)
			took -= submit(context, &block, sizes[k]);
		for (int k = 0; k < 3; k++) {
			check(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1,
			      "io_getevents");
			took += now_ns();
		}
	}
	printf("%llu\n", took);
	return 0;
}
