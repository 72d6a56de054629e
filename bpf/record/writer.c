// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Finished packets to their files, by a thread of its own: a file system that
 * is being measured can block a write for longer than a ring lasts.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"

/* Packets that may wait for a slow disk, 256 KiB each; then the rings fill. */
#define MAX_WAITING 512

static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t pushed;
	pthread_cond_t written;
	struct packet *first, *last; /* to be written */
	struct packet *spare;
	unsigned int waiting;
	int error;
	bool running;
	bool finish;
} writer = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.pushed = PTHREAD_COND_INITIALIZER,
	.written = PTHREAD_COND_INITIALIZER,
};

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t written = write(fd, bytes, size);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written ? -errno : -ENOSPC;
		bytes += written;
		size -= written;
	}
	return 0;
}

/* A packet that did not fit is taken back, so that the file ends with a whole one. */
static int write_packet(struct packet *packet)
{
	const uint8_t *bytes = (const uint8_t *)&packet->head;
	off_t begin = lseek(packet->fd, 0, SEEK_CUR);
	ssize_t size = packet->size;
	int error;

	packet->head.crc32 = checksum(bytes, size);
	if (packet->compressed)
		size = frame_make(&bytes, size);
	if (size < 0)
		return size;
	error = write_all(packet->fd, bytes, size);
	if (error && ftruncate(packet->fd, begin))
		warn("a stream file ends with a broken packet");
	return error;
}

static struct packet *next(void)
{
	struct packet *packet;

	while (!writer.first && !writer.finish)
		pthread_cond_wait(&writer.pushed, &writer.lock);
	packet = writer.first;
	if (packet)
		writer.first = packet->next;
	return packet;
}

static void *run(void *argument)
{
	struct packet *packet;

	setpriority(PRIO_PROCESS, 0, 0);
	pthread_mutex_lock(&writer.lock);
	while ((packet = next())) {
		int error = writer.error;

		pthread_mutex_unlock(&writer.lock);
		if (!error)
			error = write_packet(packet);
		pthread_mutex_lock(&writer.lock);
		writer.error = error;
		packet->next = writer.spare;
		writer.spare = packet;
		writer.waiting--;
		pthread_cond_signal(&writer.written);
	}
	pthread_mutex_unlock(&writer.lock);
	return argument;
}

int writer_start(bool compress)
{
	int error = compress ? frame_begin() : 0;

	if (!error)
		error = -pthread_create(&writer.thread, NULL, run, NULL);
	writer.running = !error;
	return error;
}

struct packet *writer_packet(void)
{
	struct packet *packet;

	pthread_mutex_lock(&writer.lock);
	packet = writer.spare;
	if (packet)
		writer.spare = packet->next;
	pthread_mutex_unlock(&writer.lock);
	return packet ? packet : aligned_alloc(64, sizeof(struct packet));
}

int writer_push(struct packet *packet)
{
	int error;

	pthread_mutex_lock(&writer.lock);
	while (writer.waiting >= MAX_WAITING)
		pthread_cond_wait(&writer.written, &writer.lock);
	packet->next = NULL;
	if (writer.first)
		writer.last->next = packet;
	else
		writer.first = packet;
	writer.last = packet;
	writer.waiting++;
	error = writer.error;
	pthread_cond_signal(&writer.pushed);
	pthread_mutex_unlock(&writer.lock);
	return error;
}

int writer_finish(void)
{
	if (!writer.running)
		return 0;
	pthread_mutex_lock(&writer.lock);
	writer.finish = true;
	pthread_cond_signal(&writer.pushed);
	pthread_mutex_unlock(&writer.lock);
	pthread_join(writer.thread, NULL);
	writer.running = false;
	frame_end();
	while (writer.spare) {
		struct packet *packet = writer.spare;

		writer.spare = packet->next;
		free(packet);
	}
	return writer.error;
}
