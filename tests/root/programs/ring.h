/* SPDX-License-Identifier: Apache-2.0 */
/* One io_uring of a few entries, without a library. */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static int ring;
static struct io_uring_params parameters;
static char *submission, *completion;
static struct io_uring_sqe *entries;

static void ring_open(unsigned int flags)
{
	parameters.flags = flags;
	ring = syscall(SYS_io_uring_setup, 8, &parameters);
	check(ring >= 0, "io_uring_setup");
	submission = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
			  IORING_OFF_SQ_RING);
	completion = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
			  IORING_OFF_CQ_RING);
	entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
		       IORING_OFF_SQES);
	check(submission != MAP_FAILED && completion != MAP_FAILED && entries != MAP_FAILED,
	      "mmap");
}

static unsigned int *word(char *at, unsigned int offset)
{
	return (unsigned int *)(at + offset);
}

/* The next entry, of zeros but for these, submitted by the next ring_enter. */
static struct io_uring_sqe *ring_add(int opcode, int fd)
{
	unsigned int tail = *word(submission, parameters.sq_off.tail);
	unsigned int mask = *word(submission, parameters.sq_off.ring_mask);
	struct io_uring_sqe *entry = &entries[tail & mask];

	memset(entry, 0, sizeof(*entry));
	entry->opcode = opcode;
	entry->fd = fd;
	word(submission, parameters.sq_off.array)[tail & mask] = tail & mask;
	__atomic_store_n(word(submission, parameters.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	return entry;
}

static void ring_enter(int count, int wait)
{
	int flags = wait ? IORING_ENTER_GETEVENTS : 0;

	if (parameters.flags & IORING_SETUP_SQPOLL)
		flags |= IORING_ENTER_SQ_WAKEUP;
	check(syscall(SYS_io_uring_enter, ring, count, wait, flags, NULL, 0) == count,
	      "io_uring_enter");
}

/* Takes the completions that are there, and prints their results.  Returns how many. */
static int ring_reap(void)
{
	struct io_uring_cqe *events = (void *)(completion + parameters.cq_off.cqes);
	unsigned int mask = *word(completion, parameters.cq_off.ring_mask);
	unsigned int *head = word(completion, parameters.cq_off.head);
	unsigned int *tail = word(completion, parameters.cq_off.tail);

	unsigned int first = *head;

	for (; *head != __atomic_load_n(tail, __ATOMIC_ACQUIRE); ++*head)
		printf("%d\n", events[*head & mask].res);
	return *head - first;
}
