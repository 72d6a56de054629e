/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of a stream file to the slots and times of each point's events, where nothing of them
 * is wrong: else the twin tells what. */
#include <stdbool.h>

#include "native.h"

enum {
	EVENT_BYTES = 64,
	AHEAD = 32, /* Events: nothing else fetches what is on the next page. */
	NUMBER_AT = 8,
	LOWEST = 256, /* Numbers of points that values are noted of. */
	FEW = 15,
};

#define NEVER UINT64_MAX

/* The different values of one field of a point's events: any more than a few are not noted. */
struct noted {
	int64_t offset; /* 0: of none. */
	int64_t count;
	uint32_t value[FEW + 1];
};

/* What is known of the events of a stream. Of the times that those of point n tell besides their
 * own in, ``first_field[n]`` is the first, ``first_field[n + 1]`` none any more. */
struct expected {
	const int64_t *first_field;
	const int64_t *offset;
	const int64_t *may_be_zero;
	uint64_t earliest_ns;
};

/* Events that tell of sleeps, and where; of each one the thread, and since when it slept. */
struct slept {
	int64_t number; /* Of their point; one that no point has: none do. */
	int64_t tid_at;
	int64_t off_at;
	int64_t wake_at;
	uint32_t *tid;
	uint64_t *off_ns; /* NEVER: the thread was let go before. */
};

static inline uint64_t time_at(const uint8_t *event, int64_t offset)
{
	uint64_t time_ns;

	__builtin_memcpy(&time_ns, event + offset, sizeof(time_ns));
	return time_ns;
}

static inline uint16_t number_of(const uint8_t *event)
{
	uint16_t number;

	__builtin_memcpy(&number, event + NUMBER_AT, sizeof(number));
	return number;
}

/* No event is written before what it tells of. */
static inline bool possible(const struct expected *expected, const uint8_t *event)
{
	uint16_t number = number_of(event);

	for (int64_t field = expected->first_field[number];
	     field < expected->first_field[number + 1]; field++) {
		uint64_t told_ns = time_at(event, expected->offset[field]);

		if (told_ns == 0 ? !expected->may_be_zero[field] : told_ns < expected->earliest_ns)
			return false;
		if (told_ns > time_at(event, 0))
			return false;
	}
	return true;
}

/* The last that was met is the first. */
static inline void note(struct noted *noted, const uint8_t *event)
{
	uint32_t value;
	int64_t at = 0;

	__builtin_memcpy(&value, event + noted->offset, sizeof(value));
	if (noted->count && noted->value[0] == value)
		return;
	while (at < noted->count && noted->value[at] != value)
		at++;
	if (at > FEW)
		return;
	noted->count += at == noted->count;
	noted->value[at] = noted->value[0];
	noted->value[0] = value;
}

static bool is_within(const struct slept *slept)
{
	const uint64_t last = EVENT_BYTES - sizeof(uint64_t);

	return (uint64_t)slept->tid_at <= last && (uint64_t)slept->off_at <= last &&
	       (uint64_t)slept->wake_at <= last;
}

static inline void keep(const struct slept *slept, const uint8_t *event, int64_t at)
{
	uint64_t off_ns = time_at(event, slept->off_at), wake_ns = time_at(event, slept->wake_at);

	__builtin_memcpy(&slept->tid[at], event + slept->tid_at, sizeof(*slept->tid));
	slept->off_ns[at] = wake_ns && wake_ns < off_ns ? NEVER : off_ns;
}

/* Returns when the last event was. ``count``: of each of the 65536 numbers that a point may have,
 * 0 at first: how many events it has then. ``place``: as many. ``noted``: of the lowest numbers.
 * ``numbers``, ``ordered_ns``: room for what each event has of both. ``slots``, ``times_ns``: of all
 * events, point by point. */
PUBLIC int64_t index_packets(const uint8_t *events, int64_t event_count, const int64_t *first_slot,
			     const int64_t *in_packet, const uint64_t *begin_ns,
			     const uint64_t *end_ns, int64_t packets, uint64_t last_ns,
			     const int64_t *first_field, const int64_t *offset,
			     const int64_t *may_be_zero, uint64_t earliest_ns, int64_t *count,
			     int64_t *place, struct noted *noted, const struct slept *slept,
			     uint16_t *numbers, uint64_t *ordered_ns, uint32_t *slots,
			     uint64_t *times_ns)
{
	const struct expected expected = { first_field, offset, may_be_zero, earliest_ns };
	int64_t before = 0, sleeps = 0, row = 0;

	if (!is_within(slept))
		return WRONG;
	for (int64_t number = 0; number < LOWEST; number++)
		if (noted[number].offset < 0 || noted[number].count < 0 ||
		    noted[number].offset > (int64_t)(EVENT_BYTES - sizeof(uint32_t)) ||
		    noted[number].count > FEW + 1)
			return WRONG;
	for (int64_t packet = 0; packet < packets; packet++) {
		int64_t first = first_slot[packet], last = first + in_packet[packet];

		if (first < 0 || last < first || last > event_count)
			return WRONG;
		for (int64_t slot = first; slot < last; slot++) {
			const uint8_t *event = events + slot * EVENT_BYTES;
			uint64_t time_ns = time_at(event, 0);
			uint16_t number = number_of(event);

			__builtin_prefetch(event + AHEAD * EVENT_BYTES);
			if (time_ns < last_ns || time_ns < begin_ns[packet] ||
			    time_ns > end_ns[packet] || !possible(&expected, event))
				return WRONG;
			last_ns = time_ns;
			count[number]++;
			numbers[row] = number;
			ordered_ns[row++] = time_ns;
			if (number == slept->number)
				keep(slept, event, sleeps++);
			if (number < LOWEST && noted[number].offset)
				note(&noted[number], event);
		}
	}
	for (int64_t number = 0; number <= UINT16_MAX; number++) {
		place[number] = before;
		before += count[number];
	}
	row = 0;
	for (int64_t packet = 0; packet < packets; packet++) {
		int64_t first = first_slot[packet];

		for (int64_t slot = first; slot < first + in_packet[packet]; slot++, row++) {
			int64_t at = place[numbers[row]]++;

			slots[at] = (uint32_t)slot;
			times_ns[at] = ordered_ns[row];
		}
	}
	return (int64_t)last_ns;
}
