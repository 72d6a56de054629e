// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The rings that BPF fills, emptied into the streams. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "record.h"
#include "iostrata.skel.h"

/* An event is in its ring this long after its time at the latest; only then is
 * the order of all before it certain. */
#define HOLD_BACK_NS 10000000ull

/* A slot that was taken hides all behind it until its event is in it.  Who took it may be kept
 * from its CPU, by a quota for as long as a second; what takes longer is not waited for. */
#define PATIENCE_NS (3 * NSEC_PER_SEC)
#define PATIENCE_AT_END_NS (NSEC_PER_SEC / 2)

/* Counted where BPF counts what a ring refuses, which was at that time. */
static void lose(struct rings *rings, unsigned int cpu, unsigned int point, uint64_t time_ns)
{
	struct ring *ring = &rings->skeleton->bss->rings[cpu % MAX_CPUS];
	unsigned long long none = 0;

	__atomic_compare_exchange_n(&ring->lost_begin_ns, &none, time_ns, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	__atomic_store_n(&ring->lost_end_ns, time_ns, __ATOMIC_RELEASE);
	__atomic_fetch_add(&rings->skeleton->bss->lost[cpu % MAX_CPUS][point % MAX_POINTS], 1,
			   __ATOMIC_RELEASE);
}

static int ringbuf_event(void *context, void *data, size_t size)
{
	struct rings *rings = context;
	const union event *event = data;

	(void)size;
	if (event->syscall.cpu >= rings->cpu_count) {
		lose(rings, event->syscall.cpu, event->syscall.point, event->syscall.time_ns);
		return 0;
	}
	if (stream_full(&rings->streams[event->syscall.cpu])) {
		int error = rings_write(rings, false);

		if (error)
			return error;
	}
	stream_add(&rings->streams[event->syscall.cpu], event);
	rings->event_count++;
	return 0;
}

static int ringbuf_wake(void *context, void *data, size_t size)
{
	(void)context;
	(void)data;
	(void)size;
	return 0;
}

static int map_slots(struct rings *rings)
{
	struct bpf_map *map = rings->skeleton->maps.slots;
	bool shared = rings->skeleton->rodata->has_cmpxchg;

	rings->ringbuf = ring_buffer__new(bpf_map__fd(rings->skeleton->maps.ringbuf),
					  shared ? ringbuf_wake : ringbuf_event, rings, NULL);
	if (!rings->ringbuf || !shared)
		return rings->ringbuf ? 0 : -errno;
	rings->slot_count = rings->skeleton->rodata->ring_slots;
	rings->slots_bytes = (size_t)bpf_map__max_entries(map) * EVENT_BYTES;
	rings->slots = mmap(NULL, rings->slots_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE,
			    bpf_map__fd(map), 0);
	if (rings->slots == MAP_FAILED) {
		rings->slots = NULL;
		return -errno;
	}
	return 0;
}

int rings_open(struct rings *rings, struct iostrata *skeleton, const struct metadata *metadata,
	       int directory_fd)
{
	unsigned int cpus = rings->cpu_count;
	int error;

	rings->skeleton = skeleton;
	rings->metadata = metadata;
	rings->streams = calloc(cpus, sizeof(*rings->streams));
	rings->stuck = calloc(cpus, sizeof(*rings->stuck));
	if (!rings->streams || !rings->stuck)
		return -ENOMEM;
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		rings->streams[cpu].fd = -1;
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		error = stream_open(&rings->streams[cpu], directory_fd, cpu,
				    metadata->options->compress);
		if (error)
			return error;
	}
	error = stream_open(&rings->recorder, directory_fd, RECORDER_CPU, false);
	return error ? error : map_slots(rings);
}

void rings_close(struct rings *rings)
{
	if (rings->slots)
		munmap(rings->slots, rings->slots_bytes);
	ring_buffer__free(rings->ringbuf);
	for (unsigned int cpu = 0; rings->streams && cpu < rings->cpu_count; cpu++)
		stream_close(&rings->streams[cpu]);
	if (rings->recorder.packet)
		stream_close(&rings->recorder);
	free(rings->streams);
	free(rings->stuck);
	rings->streams = NULL;
	rings->stuck = NULL;
}

void rings_record(struct rings *rings, bool recording)
{
	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++)
		rings->skeleton->bss->rings[cpu].recording = recording;
}

int rings_wake_fd(const struct rings *rings)
{
	return ring_buffer__epoll_fd(rings->ringbuf);
}

static uint64_t cpu_lost(const struct rings *rings, unsigned int cpu)
{
	uint64_t sum = 0;

	for (unsigned int point = 0; point < POINT_count; point++)
		sum += rings->skeleton->bss->lost[cpu][point];
	return sum;
}

uint64_t rings_lost(const struct rings *rings)
{
	uint64_t sum = 0;

	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++)
		sum += cpu_lost(rings, cpu);
	return sum;
}

/* The event at a position, NULL: it is not there (yet). */
static const union event *committed(const struct rings *rings, unsigned int cpu, uint64_t position)
{
	const union event *slots = rings->slots + (size_t)cpu * rings->slot_count;
	const union event *slot = &slots[position & (rings->slot_count - 1)];
	uint16_t lap = (position >> __builtin_ctz(rings->slot_count)) + 1;
	uint32_t word = __atomic_load_n((uint32_t *)&slot->bytes[8], __ATOMIC_ACQUIRE);

	return word & 0xffff && word >> 16 == lap ? slot : NULL;
}

/* Whether the event at a position, which is not there, is not waited for any longer. */
static bool is_stuck(struct rings *rings, unsigned int cpu, uint64_t position)
{
	struct stuck *stuck = &rings->stuck[cpu];
	uint64_t head = __atomic_load_n(&rings->skeleton->bss->rings[cpu].head, __ATOMIC_ACQUIRE);
	uint64_t now;

	if (head == position) {
		stuck->since_ns = 0;
		return false;
	}
	now = now_ns();
	if (rings->ending_ns)
		return now - rings->ending_ns >= PATIENCE_AT_END_NS;
	if (!stuck->since_ns || stuck->position != position)
		*stuck = (struct stuck){ .position = position, .since_ns = now };
	return now - stuck->since_ns >= PATIENCE_NS;
}

/* What one CPU's ring holds, given back slot by slot; how many, or -errno. */
static int drain_cpu(struct rings *rings, unsigned int cpu)
{
	struct ring *ring = &rings->skeleton->bss->rings[cpu];
	struct stream *stream = &rings->streams[cpu];
	unsigned int drained = 0;
	uint64_t tail = ring->tail;

	while (drained < rings->slot_count) {
		const union event *slot = committed(rings, cpu, tail);
		union event event;

		if (!slot) {
			if (!is_stuck(rings, cpu, tail))
				break;
			/* It is between the last one and the next. */
			lose(rings, cpu, POINT_none, stream->last_ns);
			tail++;
			continue;
		}
		if (stream_full(stream)) {
			int error = rings_write(rings, false);

			if (error)
				return error;
		}
		event = *slot;
		event.syscall.cpu = cpu;
		stream_add(stream, &event);
		tail++;
		drained++;
		if (!(drained & 63))
			__atomic_store_n(&ring->tail, tail, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&ring->tail, tail, __ATOMIC_RELEASE);
	rings->event_count += drained;
	return drained;
}

int rings_drain(struct rings *rings)
{
	int consumed = ring_buffer__consume(rings->ringbuf);
	unsigned int fullest = 0;

	if (!rings->slots) {
		size_t room = bpf_map__max_entries(rings->skeleton->maps.ringbuf);

		return consumed < 0 ? consumed
				    : (int)(consumed * 100ull * (EVENT_BYTES + 8) / room);
	}
	for (unsigned int cpu = 0; cpu < rings->cpu_count; cpu++) {
		int drained = drain_cpu(rings, cpu);

		if (drained < 0)
			return drained;
		if ((unsigned int)drained > fullest)
			fullest = drained;
	}
	return fullest * 100ull / rings->slot_count;
}

/* Whether a ring holds what was not read. */
static bool left(const struct rings *rings)
{
	for (unsigned int cpu = 0; rings->slots && cpu < rings->cpu_count; cpu++) {
		const struct ring *ring = &rings->skeleton->bss->rings[cpu];

		if (__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) != ring->tail)
			return true;
	}
	return false;
}

int rings_finish(struct rings *rings)
{
	int error;

	rings->skeleton->bss->recording_over = 1;
	rings->ending_ns = now_ns();
	rings_record(rings, false);
	do {
		usleep(1000);
		error = rings_drain(rings);
	} while (error > 0 || (!error && left(rings)));
	return error;
}

/* Until when a stream's packet goes that is written now. */
static uint64_t written_until_ns(const struct stream *stream, uint64_t now)
{
	/* It is full amid its ring: what is still there may be earlier than its last. */
	return stream_full(stream) ? stream_settled_ns(stream) : now - HOLD_BACK_NS;
}

/* What was lost since it was looked at last, and when. */
static void look_for_losses(const struct rings *rings, struct stream *stream, unsigned int cpu)
{
	struct ring *ring = &rings->skeleton->bss->rings[cpu];
	uint64_t lost = cpu_lost(rings, cpu), begin_ns, end_ns;

	if (lost == stream->lost)
		return;
	end_ns = __atomic_load_n(&ring->lost_end_ns, __ATOMIC_ACQUIRE);
	begin_ns = __atomic_exchange_n(&ring->lost_begin_ns, 0, __ATOMIC_ACQ_REL);
	/* What is not counted yet has its begin taken away: it is not before what is counted ends. */
	if (!begin_ns)
		begin_ns = stream->lost_end_ns;
	if (stream->lost == stream->discarded)
		stream->lost_begin_ns = begin_ns;
	if (stream->lost_end_ns < end_ns)
		stream->lost_end_ns = end_ns;
	stream->lost = lost;
}

/* What is lost is so between the packet that says it and the one before: that has what was earlier
 * than the losses, and this one no less than one event that is later. */
static int write_losses(struct rings *rings, struct stream *stream, uint64_t until_ns)
{
	uint64_t begin_ns = stream->lost_begin_ns < until_ns ? stream->lost_begin_ns : until_ns;
	int error = stream_write(stream, rings->metadata, begin_ns, stream->discarded, 0);
	uint64_t end_ns = stream->lost_end_ns;

	if (error || !stream->count)
		return error;
	if (end_ns < stream_first_ns(stream))
		end_ns = stream_first_ns(stream);
	if (end_ns <= until_ns)
		return stream_write(stream, rings->metadata, end_ns, stream->lost, end_ns);
	if (!stream_full(stream))
		return 0;
	/* Amid losses: it says one of them, and those that follow have the others. */
	stream->lost_begin_ns = until_ns;
	return stream_write(stream, rings->metadata, until_ns, stream->discarded + 1, 0);
}

static int write_stream(struct rings *rings, struct stream *stream, uint64_t until_ns)
{
	int error = 0;

	if (stream->lost != stream->discarded)
		error = write_losses(rings, stream, until_ns);
	/* What is later than losses that no packet says yet waits for that. */
	if (!error && stream->lost == stream->discarded)
		error = stream_write(stream, rings->metadata, until_ns, stream->discarded, 0);
	return error;
}

/* final: also what is younger than its order is certain, as nothing will follow. */
int rings_write(struct rings *rings, bool final)
{
	for (unsigned int cpu = 0; cpu < rings->cpu_count; cpu++) {
		struct stream *stream = &rings->streams[cpu];
		uint64_t now = now_ns(), until_ns;
		int error;

		look_for_losses(rings, stream, cpu);
		until_ns = final ? UINT64_MAX : written_until_ns(stream, now);
		error = write_stream(rings, stream, until_ns);
		/* Nothing follows that could say it; or a whole packet of one instant: order may
		 * suffer, not the events. */
		if (!error && (final || stream_full(stream)))
			error = stream_write(stream, rings->metadata, UINT64_MAX, stream->lost,
					     now);
		if (error)
			return error;
	}
	return stream_write(&rings->recorder, rings->metadata, UINT64_MAX, 0, 0);
}
