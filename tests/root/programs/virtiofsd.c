// SPDX-License-Identifier: Apache-2.0
/*
 * A daemon of the name and with the functions of virtiofsd (QEMU's, in C): for a line N on
 * its input it serves N requests in a thread born then, each a synchronous write to its
 * file.  It says when it began and had ended each: "UNIQUE BEGIN END", then "done".
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FUSE_WRITE 16

struct in_header {
	uint32_t length, opcode;
	uint64_t unique;
};

struct out_header {
	uint32_t length;
	int32_t error;
	uint64_t unique;
};

/* libfuse's, with one buffer. */
struct buffers {
	size_t count, index, offset, size;
	uint32_t flags;
	void *memory;
};

static int file;
static uint64_t next_unique = 2;

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* Not in the dynamic table: found by the symbols of the file. */
static __attribute__((noinline, used)) int virtio_send_msg(void *session, void *channel,
							   struct iovec *vector, int count)
{
	struct out_header *header = vector->iov_base;

	__asm__ volatile("" : : "r"(session), "r"(channel), "r"(count) : "memory");
	return header->error;
}

__attribute__((noinline)) void fuse_session_process_buf_int(void *session, struct buffers *buffers,
							    void *channel)
{
	struct in_header *in = buffers->memory;
	struct out_header out = { sizeof(out), 0, in->unique };
	struct iovec vector = { &out, sizeof(out) };
	char data[4096] = "";

	if (pwrite(file, data, sizeof(data), 0) != sizeof(data) || fdatasync(file))
		exit(1);
	virtio_send_msg(session, channel, &vector, 1);
}

static void *serve(void *count)
{
	for (int i = 0; i < *(int *)count; i++) {
		struct in_header in = { sizeof(in), FUSE_WRITE, next_unique };
		struct buffers buffers = { .count = 1, .size = sizeof(in), .memory = &in };
		uint64_t begin = now_ns();

		fuse_session_process_buf_int(NULL, &buffers, NULL);
		printf("%llu %llu %llu\n", (unsigned long long)next_unique,
		       (unsigned long long)begin, (unsigned long long)now_ns());
		next_unique += 2;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int count;

	file = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
	if (file < 0)
		return 1;
	puts("up");
	fflush(stdout);
	while (scanf("%d", &count) == 1) {
		pthread_create(&thread, NULL, serve, &count);
		pthread_join(thread, NULL);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
