// SPDX-License-Identifier: Apache-2.0
/* libaio's requests, so many by one call of io_submit: writes of 512 bytes, one behind the other. */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE 512

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static char buffer[SIZE] __attribute__((aligned(4096)));
	aio_context_t context = 0;
	struct io_event *events;
	struct iocb *blocks, **all;
	long many, submitted;
	int file;

	check(argc == 3, "usage");
	many = atol(argv[2]);
	blocks = calloc(many, sizeof(*blocks));
	all = calloc(many, sizeof(*all));
	events = calloc(many, sizeof(*events));
	check(blocks && all && events, "calloc");
	file = open(argv[1], O_RDWR | O_CREAT | O_DSYNC, 0600);
	check(file >= 0, "open");
	for (long i = 0; i < many; i++) {
		blocks[i].aio_fildes = file;
		blocks[i].aio_lio_opcode = IOCB_CMD_PWRITE;
		blocks[i].aio_buf = (unsigned long)buffer;
		blocks[i].aio_nbytes = SIZE;
		blocks[i].aio_offset = i * SIZE;
		all[i] = &blocks[i];
	}
	check(!syscall(SYS_io_setup, many, &context), "io_setup");
	submitted = syscall(SYS_io_submit, context, many, all);
	check(submitted == many, "io_submit");
	check(syscall(SYS_io_getevents, context, many, many, events, NULL) == many, "io_getevents");
	return 0;
}
