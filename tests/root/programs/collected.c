// SPDX-License-Identifier: Apache-2.0
/*
 * collected FILE COUNT: so many synchronous writes by libaio, each of which is collected as poll says
 * that it is complete, on a CPU that a busy process has as well.  Prints for how long this thread
 * could run meanwhile, but had no CPU, in ns, by the scheduler's own account.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE 8192

static char buffer[SIZE] __attribute__((aligned(4096)));

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* schedstat: on the CPU, waiting for it, how often; see Documentation/scheduler/sched-stats.rst. */
static unsigned long long waited_ns(int account)
{
	unsigned long long on, waited;
	char text[128] = "";

	check(pread(account, text, sizeof(text) - 1, 0) > 0, "schedstat");
	check(sscanf(text, "%llu %llu", &on, &waited) == 2, "schedstat");
	return waited;
}

static pid_t keep_busy(void)
{
	pid_t parent = getpid(), child = fork();

	check(child >= 0, "fork");
	while (!child && getppid() == parent)
		;
	if (!child)
		_exit(0);
	return child;
}

int main(int argc, char **argv)
{
	int account = open("/proc/self/schedstat", O_RDONLY);
	int file = open(argv[1], O_RDWR | O_CREAT | O_DIRECT | O_DSYNC, 0600);
	int count = atoi(argv[2]), complete = eventfd(0, 0);
	unsigned long long before, waited = 0;
	aio_context_t context = 0;
	cpu_set_t cpus;
	pid_t busy;

	(void)argc;
	check(account >= 0 && file >= 0 && complete >= 0, "open");
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	check(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "sched_setaffinity");
	busy = keep_busy();
	/* Who is woken does not take the CPU from that one. */
	check(nice(15) == 15, "nice");
	check(syscall(SYS_io_setup, 1, &context) == 0, "io_setup");
	for (int i = 0; i < count; i++) {
		struct iocb block = { .aio_lio_opcode = IOCB_CMD_PWRITE,
				      .aio_fildes = file,
				      .aio_buf = (uintptr_t)buffer,
				      .aio_nbytes = SIZE,
				      .aio_offset = (long long)i * SIZE,
				      .aio_flags = IOCB_FLAG_RESFD,
				      .aio_resfd = complete },
			    *blocks[] = { &block };
		struct pollfd polled = { .fd = complete, .events = POLLIN };
		struct io_event event;
		uint64_t number;

		before = waited_ns(account);
		check(syscall(SYS_io_submit, context, 1, blocks) == 1, "io_submit");
		check(poll(&polled, 1, -1) == 1, "poll");
		check(read(complete, &number, sizeof(number)) == sizeof(number), "read");
		check(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1, "io_getevents");
		check(event.res == SIZE, "write");
		waited += waited_ns(account) - before;
	}
	kill(busy, SIGKILL);
	printf("%llu\n", waited);
	return 0;
}
