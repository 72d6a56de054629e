// SPDX-License-Identifier: Apache-2.0
/*
 * requests FILE MODE COUNT: io_uring requests for a file, in so many rounds.
 *
 * defer: a write and an fsync, of a ring whose submitter completes what workers have done
 * range: likewise a write, not directly, and a sync_file_range behind it, both run by workers
 * append: a write at 0 of a file that is O_APPEND, and a sync_file_range of what it wrote
 * position: a write to where the last one got (-1), and a sync_file_range of what it wrote
 * worker: synchronous writes, directly, that a worker begins
 * refused: an fsync with a flag that there is not
 * cancelled: an fsync behind a write that fails
 * direct, cached: so many synchronous writes at once; of the latter a worker has one after the other
 * drained: likewise, directly, each drained
 * polled-direct, polled-cached: the same, submitted by the kernel's own thread
 * polled-clock: as polled-direct; behind each round, what CLOCK_MONOTONIC says, ns
 * vector: a synchronous write of two registered buffers
 * plain-vector: the same, not synchronous, and an fsync(2) behind it
 * splice: what a pipe holds, into a file that is O_DSYNC
 * plain-splice: the same of another file, and an fsync(2) behind it
 * allocate: an fallocate of a file that is O_DSYNC
 * plain-allocate: of another file
 * cut: an ftruncate, to less than 4 MiB, and less each time
 * silent: a write, whose completion is not asked for, and an fsync behind it
 * chain: so many synchronous writes, directly, each linked behind the one before
 * halted: a write, directly, and an fsync behind it, of who is stopped for 100 ms meanwhile
 * message: a message that comes after 5 ms, and linked behind that a write and an fsync
 * opened: likewise, of a file that is opened, and cut to nothing, before
 * full, nameless: more synchronous writes than the ring has room for completions of; of the latter
 *   all are called alike
 */
#include <fcntl.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "ring.h"

/* Not all of these are in the headers of all machines. */
#define OP_FTRUNCATE 55
#define OP_WRITEV_FIXED 61

#define SIZE 8192
#define DEPTH 4
#define FULL 32
#define DEFER (IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN)

static char buffer[SIZE] __attribute__((aligned(4096)));

static struct io_uring_sqe *write_of(int fd, int number)
{
	struct io_uring_sqe *entry = ring_add(IORING_OP_WRITE, fd);

	entry->addr = (unsigned long)buffer;
	entry->len = SIZE;
	entry->off = (unsigned long long)number * SIZE;
	return entry;
}

static void one(void)
{
	ring_enter(1, 1);
	ring_reap();
}

static void defer(int fd, int number)
{
	write_of(fd, number);
	one();
	ring_add(IORING_OP_FSYNC, fd);
	one();
}

static void range_of(int fd, int number)
{
	struct io_uring_sqe *entry = ring_add(IORING_OP_SYNC_FILE_RANGE, fd);

	entry->off = (unsigned long long)number * SIZE;
	entry->len = SIZE;
	entry->sync_range_flags = 7;
}

static void range(int fd, int number)
{
	check(!fcntl(fd, F_SETFL, 0), "fcntl");
	write_of(fd, number)->flags = IOSQE_IO_LINK | IOSQE_ASYNC;
	range_of(fd, number);
	ring_enter(2, 2);
	ring_reap();
}

static void append(int fd, int number)
{
	check(!fcntl(fd, F_SETFL, O_APPEND), "fcntl");
	write_of(fd, 0);
	one();
	range_of(fd, number);
	one();
}

static void position(int fd, int number)
{
	check(!fcntl(fd, F_SETFL, 0), "fcntl");
	write_of(fd, 0)->off = -1;
	one();
	range_of(fd, number);
	one();
}

static void worker(int fd, int number)
{
	struct io_uring_sqe *entry = write_of(fd, number);

	entry->flags = IOSQE_ASYNC;
	entry->rw_flags = RWF_DSYNC;
	one();
}

static void direct(int fd, int number)
{
	for (int place = 0; place < DEPTH; place++)
		write_of(fd, 2 * (number * DEPTH + place))->rw_flags = RWF_DSYNC;
	ring_enter(DEPTH, DEPTH);
	ring_reap();
}

static void cached(int fd, int number)
{
	check(!fcntl(fd, F_SETFL, 0), "fcntl");
	direct(fd, number);
}

static void drained(int fd, int number)
{
	for (int place = 0; place < DEPTH; place++) {
		struct io_uring_sqe *entry = write_of(fd, 2 * (number * DEPTH + place));

		entry->rw_flags = RWF_DSYNC;
		entry->flags = IOSQE_IO_DRAIN;
	}
	ring_enter(DEPTH, DEPTH);
	ring_reap();
}

static void clocked(int fd, int number)
{
	struct timespec now;

	direct(fd, number);
	check(!clock_gettime(CLOCK_MONOTONIC, &now), "clock_gettime");
	printf("at %lld\n", now.tv_sec * 1000000000ll + now.tv_nsec);
}

static void refused(int fd, int number)
{
	(void)number;
	ring_add(IORING_OP_FSYNC, fd)->fsync_flags = 1 << 7;
	one();
}

static void cancelled(int fd, int number)
{
	struct io_uring_sqe *entry = write_of(fd, number);

	/* Not what direct I/O takes. */
	entry->len = 1;
	entry->flags = IOSQE_IO_LINK;
	ring_add(IORING_OP_FSYNC, fd);
	ring_enter(2, 2);
	ring_reap();
}

static void vector_of(int fd, int number, int flags)
{
	struct iovec halves[] = { { buffer, SIZE / 2 }, { buffer + SIZE / 2, SIZE / 2 } };
	struct iovec whole = { buffer, SIZE };
	struct io_uring_sqe *entry;

	if (!number)
		check(!syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &whole, 1),
		      "io_uring_register");
	entry = ring_add(OP_WRITEV_FIXED, fd);
	entry->addr = (unsigned long)halves;
	entry->len = 2;
	entry->off = (unsigned long long)number * SIZE;
	entry->rw_flags = flags;
	one();
}

static void vector(int fd, int number)
{
	vector_of(fd, number, RWF_DSYNC);
}

static void plain_vector(int fd, int number)
{
	vector_of(fd, number, 0);
	check(!fsync(fd), "fsync");
}

/* Opened once more: what a descriptor is open for, fcntl does not change. */
static int durable(int fd)
{
	static int reopened;
	char name[32];

	if (!reopened) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		reopened = open(name, O_RDWR | O_DSYNC);
		check(reopened >= 0, "open");
	}
	return reopened;
}

static void splice_to(int fd, int number)
{
	static int ends[2];
	struct io_uring_sqe *entry;

	if (!ends[1])
		check(!pipe(ends), "pipe");
	check(write(ends[1], buffer, SIZE) == SIZE, "write");
	entry = ring_add(IORING_OP_SPLICE, fd);
	entry->splice_fd_in = ends[0];
	entry->splice_off_in = -1;
	entry->len = SIZE;
	entry->off = (unsigned long long)number * SIZE;
	one();
}

static void splice_durably(int fd, int number)
{
	splice_to(durable(fd), number);
}

static void splice_plainly(int fd, int number)
{
	check(!fcntl(fd, F_SETFL, 0), "fcntl");
	splice_to(fd, number);
	check(!fsync(fd), "fsync");
}

static void allocate_plainly(int fd, int number)
{
	struct io_uring_sqe *entry = ring_add(IORING_OP_FALLOCATE, fd);

	entry->off = (unsigned long long)number * SIZE;
	entry->addr = SIZE;
	one();
}

static void allocate(int fd, int number)
{
	allocate_plainly(durable(fd), number);
}

static void cut(int fd, int number)
{
	ring_add(OP_FTRUNCATE, fd)->off = (4ull << 20) - (unsigned long long)number * SIZE;
	one();
}

static void silent(int fd, int number)
{
	write_of(fd, number)->flags = IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
	ring_add(IORING_OP_FSYNC, fd);
	ring_enter(2, 1);
	ring_reap();
}

static void chain(int fd, int number)
{
	for (int place = 0; place < DEPTH; place++) {
		struct io_uring_sqe *entry = write_of(fd, 2 * (number * DEPTH + place));

		entry->rw_flags = RWF_DSYNC;
		if (place < DEPTH - 1)
			entry->flags = IOSQE_IO_LINK;
	}
	ring_enter(DEPTH, DEPTH);
	ring_reap();
}

/* So much takes the disk longer than its next call; what is overwritten is no worker's. */
static void halted(int fd, int number)
{
	static char much[4 << 20] __attribute__((aligned(4096)));
	struct io_uring_sqe *entry;
	pid_t child;

	if (!number)
		check(pwrite(fd, much, sizeof(much), 0) == sizeof(much) && !fsync(fd), "pwrite");
	child = fork();
	if (!child) {
		usleep(100000);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	entry = write_of(fd, 0);
	entry->addr = (unsigned long)much;
	entry->len = sizeof(much);
	entry->flags = IOSQE_IO_LINK;
	ring_add(IORING_OP_FSYNC, fd);
	ring_enter(2, 0);
	raise(SIGSTOP);
	ring_enter(0, 2);
	ring_reap();
	check(waitpid(child, NULL, 0) == child, "waitpid");
}

/* Whoever asks has an answer 5 ms later. */
static void answer(int questions, int answers)
{
	char letter;

	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(questions, &letter, 1) == 1) {
		usleep(5000);
		check(write(answers, &letter, 1) == 1, "write");
	}
	_exit(0);
}

static void message(int fd, int number)
{
	static int ask[2], told[2];
	static char letter;
	struct io_uring_sqe *entry;

	if (!number) {
		check(!pipe(ask) && !pipe(told), "pipe");
		answer(ask[0], told[1]);
	}
	check(write(ask[1], "?", 1) == 1, "write");
	entry = ring_add(IORING_OP_READ, told[0]);
	entry->addr = (unsigned long)&letter;
	entry->len = 1;
	entry->flags = IOSQE_IO_LINK;
	write_of(fd, number)->flags = IOSQE_IO_LINK;
	ring_add(IORING_OP_FSYNC, fd);
	ring_enter(3, 3);
	ring_reap();
}

static const char *path;

static void opened(int fd, int number)
{
	struct io_uring_sqe *entry;
	int none = -1;

	if (!number)
		check(!syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &none, 1),
		      "io_uring_register");
	/* It takes a while to cut off. */
	check(!fallocate(fd, 0, 0, 64 << 20), "fallocate");
	entry = ring_add(IORING_OP_OPENAT, AT_FDCWD);
	entry->addr = (unsigned long)path;
	entry->open_flags = O_RDWR | O_TRUNC;
	entry->file_index = 1;
	entry->flags = IOSQE_IO_LINK;
	write_of(0, 0)->flags = IOSQE_IO_LINK | IOSQE_FIXED_FILE;
	ring_add(IORING_OP_FSYNC, 0)->flags = IOSQE_IO_LINK | IOSQE_FIXED_FILE;
	ring_add(IORING_OP_CLOSE, 0)->file_index = 1;
	ring_enter(4, 4);
	ring_reap();
}

static void fill(int fd, int number, int named)
{
	int left = 0;

	while (left < FULL) {
		for (int place = 0; place < DEPTH; place++, left++) {
			struct io_uring_sqe *entry = write_of(fd, number * FULL + left);

			entry->rw_flags = RWF_DSYNC;
			entry->user_data = named * left;
		}
		ring_enter(DEPTH, 0);
	}
	usleep(20000);
	for (; left; left -= ring_reap())
		ring_enter(0, 1);
}

static void full(int fd, int number)
{
	fill(fd, number, 1);
}

static void nameless(int fd, int number)
{
	fill(fd, number, 0);
}

static const struct mode {
	const char *name;
	void (*run)(int fd, int number);
	int flags; /* of the ring */
} modes[] = {
	{ "defer", defer, DEFER },
	{ "range", range, DEFER },
	{ "append", append, 0 },
	{ "position", position, 0 },
	{ "worker", worker, 0 },
	{ "direct", direct, 0 },
	{ "cached", cached, 0 },
	{ "drained", drained, 0 },
	{ "polled-direct", direct, IORING_SETUP_SQPOLL },
	{ "polled-cached", cached, IORING_SETUP_SQPOLL },
	{ "polled-clock", clocked, IORING_SETUP_SQPOLL },
	{ "refused", refused, 0 },
	{ "cancelled", cancelled, 0 },
	{ "silent", silent, 0 },
	{ "chain", chain, 0 },
	{ "halted", halted, 0 },
	{ "message", message, 0 },
	{ "opened", opened, 0 },
	{ "full", full, 0 },
	{ "nameless", nameless, 0 },
	{ "vector", vector, 0 },
	{ "plain-vector", plain_vector, 0 },
	{ "splice", splice_durably, 0 },
	{ "plain-splice", splice_plainly, 0 },
	{ "allocate", allocate, 0 },
	{ "plain-allocate", allocate_plainly, 0 },
	{ "cut", cut, 0 },
};

int main(int argc, char **argv)
{
	const struct mode *mode = modes;
	int fd;

	check(argc == 4, "usage");
	while (strcmp(mode->name, argv[2]))
		check(++mode < modes + sizeof(modes) / sizeof(*modes), "mode");
	path = argv[1];
	fd = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
	check(fd >= 0, "open");
	ring_open(mode->flags);
	for (int number = 0; number < atoi(argv[3]); number++)
		mode->run(fd, number);
	return 0;
}
