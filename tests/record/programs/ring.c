// SPDX-License-Identifier: Apache-2.0
/*
 * The recorder's rings without a kernel: a script of steps as arguments, one line each.
 *
 *	take N    BPF takes N slots, one after the other
 *	put N     the event N is there
 *	early N   the same, of a time before the one before it
 *	refuse T  BPF loses one at that time
 *	wait MS   time passes
 *	write     the streams' packets, as far as they are certain
 *	drain     what the recorder reads and counts as lost, so far
 *	finish    the same at the end, for which time passes by itself
 *
 * The streams are written into the directory that is the first argument.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "record.h"
#include "iostrata.skel.h"

#define SLOTS 16
#define CPUS 2
#define CPU 1

static uint64_t clock_ns = NSEC_PER_SEC;
static bool passes;

uint64_t now_ns(void)
{
	clock_ns += passes ? 1000000 : 0;
	return clock_ns;
}

void warn(const char *format, ...)
{
	(void)format;
}

/* Of libbpf, what the rings ask for. */
int ring_buffer__consume(struct ring_buffer *ringbuf)
{
	return ringbuf ? -1 : 0;
}

struct ring_buffer *ring_buffer__new(int fd, ring_buffer_sample_fn function, void *context,
				     const struct ring_buffer_opts *options)
{
	return fd < 0 && function && context && options ? context : NULL;
}

void ring_buffer__free(struct ring_buffer *ringbuf)
{
	(void)ringbuf;
}

int ring_buffer__epoll_fd(const struct ring_buffer *ringbuf)
{
	return ringbuf ? 0 : -1;
}

int bpf_map__fd(const struct bpf_map *map)
{
	return map ? 0 : -1;
}

__u32 bpf_map__max_entries(const struct bpf_map *map)
{
	return map ? 1 : 0;
}

static void put(struct rings *rings, uint64_t position, uint64_t earlier_ns)
{
	union event *event = &rings->slots[CPU * SLOTS + position % SLOTS];

	memset(event, 0, sizeof(*event));
	event->syscall.time_ns = 1000 + 10 * position - earlier_ns;
	event->syscall.cpu = position / SLOTS + 1;
	event->syscall.tid = position;
	event->syscall.point = POINT_syscall;
}

/* As emit_lost_count() in BPF. */
static void refuse(struct rings *rings, unsigned int time_ns)
{
	struct ring *ring = &rings->skeleton->bss->rings[CPU];

	if (!ring->lost_begin_ns)
		ring->lost_begin_ns = time_ns;
	ring->lost_end_ns = time_ns;
	rings->skeleton->bss->lost[CPU][POINT_syscall]++;
}

static void step(struct rings *rings, const char *name, unsigned int number)
{
	struct ring *ring = &rings->skeleton->bss->rings[CPU];

	if (!strcmp(name, "take"))
		ring->head += number;
	else if (!strcmp(name, "put"))
		put(rings, number, 0);
	else if (!strcmp(name, "early"))
		put(rings, number, 15);
	else if (!strcmp(name, "refuse"))
		refuse(rings, number);
	else if (!strcmp(name, "wait"))
		clock_ns += number * 1000000ull;
	else if (!strcmp(name, "write"))
		rings_write(rings, false);
	passes = !strcmp(name, "finish");
	if (!strcmp(name, "drain"))
		rings_drain(rings);
	else if (passes)
		rings_finish(rings);
	else
		return;
	printf("%s %llu read %llu lost\n", name, (unsigned long long)rings->event_count,
	       (unsigned long long)rings_lost(rings));
}

int main(int argc, char **argv)
{
	static struct iostrata skeleton;
	static struct metadata metadata = { .used_bytes[POINT_syscall] =
						    sizeof(struct syscall_event) };
	static struct rings rings = { .metadata = &metadata,
				      .cpu_count = CPUS,
				      .slot_count = SLOTS };
	bool compress = argc > 2 && !strcmp(argv[2], "compress");
	int directory = open(argv[1], O_RDONLY | O_DIRECTORY);

	skeleton.bss = calloc(1, sizeof(*skeleton.bss));
	rings.skeleton = &skeleton;
	rings.slots = calloc(CPUS * SLOTS, sizeof(*rings.slots));
	rings.streams = calloc(CPUS, sizeof(*rings.streams));
	rings.stuck = calloc(CPUS, sizeof(*rings.stuck));
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		stream_open(&rings.streams[cpu], directory, cpu, compress);
	stream_open(&rings.recorder, directory, RECORDER_CPU, false);
	writer_start(compress);
	for (int at = 2; at < argc; at++) {
		char name[16];
		unsigned int number = 0;

		sscanf(argv[at], "%15s %u", name, &number);
		step(&rings, name, number);
	}
	rings_write(&rings, true);
	return writer_finish() ? 1 : 0;
}
