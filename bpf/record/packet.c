// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Events, sorted by time, to the CTF packets of one stream file. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define PACKET_MAGIC 0xC1FC1FC1u

_Static_assert(sizeof(struct packet_head) == 128, "a packet's head is 128 bytes");
_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "events are written as they are");

int stream_open(struct stream *stream, int directory_fd, uint32_t cpu, bool compressed)
{
	char name[32];

	*stream = (struct stream){ .fd = -1, .cpu = cpu, .compressed = compressed };
	if (cpu == RECORDER_CPU)
		snprintf(name, sizeof(name), "recorder");
	else
		snprintf(name, sizeof(name), "cpu_%u%s", cpu, compressed ? ".zst" : "");
	stream->packet = writer_packet();
	if (!stream->packet)
		return -ENOMEM;
	stream->fd = openat(directory_fd, name,
			    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	return stream->fd < 0 ? -errno : 0;
}

void stream_close(struct stream *stream)
{
	if (stream->fd >= 0)
		close(stream->fd);
	free(stream->packet);
	*stream = (struct stream){ .fd = -1 };
}

/* Until when a full packet can be written: an interrupt's event may still precede the last. */
uint64_t stream_settled_ns(const struct stream *stream)
{
	return stream->packet->events[PACKET_EVENTS - 64].syscall.time_ns;
}

uint64_t stream_first_ns(const struct stream *stream)
{
	return stream->packet->events[0].syscall.time_ns;
}

bool stream_full(const struct stream *stream)
{
	return stream->count == PACKET_EVENTS;
}

/* An interrupt between reserve and timestamp inverts a pair: sorted from the end. */
void stream_add(struct stream *stream, const union event *event)
{
	union event *events = stream->packet->events;
	unsigned int at = stream->count++;

	while (at && events[at - 1].syscall.time_ns > event->syscall.time_ns)
		at--;
	if (at + 1 < stream->count)
		memmove(&events[at + 1], &events[at],
			(size_t)(stream->count - 1 - at) * EVENT_BYTES);
	memcpy(&events[at], event, EVENT_BYTES);
	stream->last_ns = events[stream->count - 1].syscall.time_ns;
}

/* All of the head but the checksum, which the writer adds. */
static void fill_head(const struct stream *stream, const struct metadata *metadata,
		      unsigned int count, uint64_t discarded, uint64_t end_ns)
{
	struct packet *packet = stream->packet;
	const union event *last = packet->events + count - 1;
	uint64_t size = sizeof(packet->head) + (uint64_t)count * EVENT_BYTES;
	uint64_t now = now_ns(), unused = 0, until_ns = now;

	if (count) {
		unused = EVENT_BYTES - metadata->used_bytes[last->syscall.point % MAX_POINTS];
		until_ns = last->syscall.time_ns;
		/* What was discarded since the packet before, was until this one's end. */
		if (discarded != stream->discarded && until_ns < end_ns)
			until_ns = end_ns;
	}
	packet->fd = stream->fd;
	packet->compressed = stream->compressed;
	packet->size = size;
	packet->head = (struct packet_head){
		.magic = PACKET_MAGIC,
		.timestamp_begin = count ? packet->events[0].syscall.time_ns : now,
		.timestamp_end = until_ns,
		/* Of an empty packet, the padding of its head would be taken for an event. */
		.content_size =
			count ? (size - unused) * 8 : offsetof(struct packet_head, padding) * 8,
		.packet_size = size * 8,
		.packet_seq_num = stream->sequence,
		.events_discarded = discarded,
		.cpu_id = stream->cpu,
	};
	memcpy(packet->head.uuid, metadata->uuid, sizeof(packet->head.uuid));
}

int stream_write(struct stream *stream, const struct metadata *metadata, uint64_t until_ns,
		 uint64_t discarded, uint64_t end_ns)
{
	struct packet *packet = stream->packet, *following;
	unsigned int count = stream->count;

	while (count && packet->events[count - 1].syscall.time_ns > until_ns)
		count--;
	/* A packet without events only to tell of losses that no packet follows. */
	if (!count && (discarded == stream->discarded || until_ns != UINT64_MAX))
		return 0;
	following = writer_packet();
	if (!following)
		return -ENOMEM;
	fill_head(stream, metadata, count, discarded, end_ns);
	stream->count -= count;
	memcpy(following->events, packet->events + count, (size_t)stream->count * EVENT_BYTES);
	stream->packet = following;
	stream->sequence++;
	stream->discarded = discarded;
	return writer_push(packet);
}
