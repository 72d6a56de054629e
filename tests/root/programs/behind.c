// SPDX-License-Identifier: Apache-2.0
/*
 * behind FILE COUNT: has nothing to sync in it, so many times, and says how long each of these calls
 * took by its own clock; in between it makes others.  Each 200 us a child takes its CPU for 60 us.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAITS 7 /* for all that is on its way, before and after */
#define EACH_NS 200000
#define TAKEN_NS 60000

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

static void take_the_cpu(void)
{
	struct timespec until = { .tv_nsec = EACH_NS - TAKEN_NS };
	struct sched_param first = { .sched_priority = 10 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check(!sched_setscheduler(0, SCHED_FIFO, &first), "sched_setscheduler");
	for (;;) {
		long since = now();

		while (now() - since < TAKEN_NS)
			;
		nanosleep(&until, NULL);
	}
}

int main(int argc, char **argv)
{
	long count, *took;
	int file, other;
	cpu_set_t cpu;
	pid_t child;

	check(argc == 3, "usage");
	count = atol(argv[2]);
	took = calloc(count, sizeof(*took));
	file = open(argv[1], O_RDWR | O_CREAT, 0600);
	other = open("/dev/null", O_RDWR);
	check(took && file >= 0 && other >= 0, "open");
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	check(!sched_setaffinity(0, sizeof(cpu), &cpu), "sched_setaffinity");
	child = fork();
	check(child >= 0, "fork");
	if (!child)
		take_the_cpu();
	for (long i = 0; i < count; i++) {
		long since = now();

		check(!sync_file_range(file, 0, 0, WAITS), "sync_file_range");
		took[i] = now() - since;
		/* Of these nobody asks what they took. */
		sync_file_range(other, 0, 0, WAITS);
		syscall(SYS_getppid);
	}
	kill(child, SIGKILL);
	for (long i = 0; i < count; i++)
		printf("%ld\n", took[i]);
	return 0;
}
