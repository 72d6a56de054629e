// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Events, sorted by time, to the CTF packets of one stream file. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "record.h"

#define PACKET_MAGIC 0xC1FC1FC1u
#define HEAD_BYTES 128
#define PACKET_EVENTS 8192

struct packet_head {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t timestamp_begin;
	uint64_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	uint64_t events_discarded;
	uint32_t cpu_id;
	uint32_t crc32;
	uint8_t padding[HEAD_BYTES - 80];
} __attribute__((packed));

_Static_assert(sizeof(struct packet_head) == HEAD_BYTES, "a packet's head is 128 bytes");
_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "events are written as they are");

static union event *events_of(const struct stream *stream)
{
	return (union event *)(stream->packet + HEAD_BYTES);
}

int stream_open(struct stream *stream, int directory_fd, uint32_t cpu)
{
	char name[32];

	*stream = (struct stream){ .fd = -1, .cpu = cpu };
	if (cpu == RECORDER_CPU)
		snprintf(name, sizeof(name), "recorder");
	else
		snprintf(name, sizeof(name), "cpu_%u", cpu);
	stream->packet = aligned_alloc(64, HEAD_BYTES + PACKET_EVENTS * EVENT_BYTES);
	if (!stream->packet)
		return -ENOMEM;
	stream->fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return stream->fd < 0 ? -errno : 0;
}

void stream_close(struct stream *stream)
{
	if (stream->fd >= 0)
		close(stream->fd);
	free(stream->packet);
	*stream = (struct stream){ .fd = -1 };
}

bool stream_full(const struct stream *stream)
{
	return stream->count == PACKET_EVENTS;
}

/* An interrupt between reserve and timestamp inverts a pair: sorted from the end. */
void stream_add(struct stream *stream, const union event *event)
{
	union event *events = events_of(stream);
	unsigned int at = stream->count++;

	while (at && events[at - 1].syscall.time_ns > event->syscall.time_ns)
		at--;
	if (at + 1 < stream->count)
		memmove(&events[at + 1], &events[at], (stream->count - 1 - at) * EVENT_BYTES);
	memcpy(&events[at], event, EVENT_BYTES);
}

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
static int write_packet(struct stream *stream, size_t size)
{
	off_t begin = lseek(stream->fd, 0, SEEK_CUR);
	int error = write_all(stream->fd, stream->packet, size);

	if (error && ftruncate(stream->fd, begin))
		warn("a stream file ends with a broken packet");
	return error;
}

static void fill_head(struct stream *stream, const struct metadata *metadata, unsigned int count,
		      uint64_t discarded)
{
	struct packet_head *head = (struct packet_head *)stream->packet;
	const union event *events = events_of(stream);
	size_t size = HEAD_BYTES + (size_t)count * EVENT_BYTES;
	size_t unused = 0;

	if (count) {
		unsigned int point = events[count - 1].syscall.point;

		unused = EVENT_BYTES - metadata->used_bytes[point % MAX_POINTS];
	}
	*head = (struct packet_head){
		.magic = PACKET_MAGIC,
		.timestamp_begin = count ? events[0].syscall.time_ns : now_ns(),
		.timestamp_end = count ? events[count - 1].syscall.time_ns : now_ns(),
		.content_size = (size - unused) * 8,
		.packet_size = size * 8,
		.packet_seq_num = stream->sequence,
		.events_discarded = discarded,
		.cpu_id = stream->cpu,
	};
	memcpy(head->uuid, metadata->uuid, sizeof(head->uuid));
	head->crc32 = crc32(0, stream->packet, size);
}

int stream_write(struct stream *stream, const struct metadata *metadata, uint64_t until_ns,
		 uint64_t discarded)
{
	union event *events = events_of(stream);
	unsigned int count = stream->count;
	int error;

	while (count && events[count - 1].syscall.time_ns > until_ns)
		count--;
	if (!count && (discarded == stream->discarded || stream->count))
		return 0;
	fill_head(stream, metadata, count, discarded);
	error = write_packet(stream, HEAD_BYTES + (size_t)count * EVENT_BYTES);
	if (error)
		return error;
	stream->sequence++;
	stream->discarded = discarded;
	stream->written_events += count;
	stream->count -= count;
	memmove(events, events + count, (size_t)stream->count * EVENT_BYTES);
	return 0;
}
