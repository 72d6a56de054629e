// SPDX-License-Identifier: Apache-2.0
/* by_worker FILE COUNT: writes to it, and has a worker of the kernel make that durable (libaio). */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static char buffer[4096];
	aio_context_t context = 0;
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_FDSYNC }, *all = &block;
	struct io_event event;

	check(argc == 3, "usage");
	block.aio_fildes = open(argv[1], O_WRONLY | O_CREAT, 0600);
	check((int)block.aio_fildes >= 0, argv[1]);
	check(!syscall(SYS_io_setup, 1, &context), "io_setup");
	for (long i = 0; i < atol(argv[2]); i++) {
		check(pwrite(block.aio_fildes, buffer, sizeof(buffer), i * sizeof(buffer)) ==
			      sizeof(buffer),
		      "pwrite");
		check(syscall(SYS_io_submit, context, 1, &all) == 1, "io_submit");
		check(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1, "io_getevents");
	}
	return 0;
}
