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

/* Packets of one stream, in words of 64 bits, as Python has them. */
struct packets {
	const uint8_t *events;
	int64_t event_count;
	const int64_t *first_slot;
	const int64_t *in_packet;
	const uint64_t *begin_ns;
	const uint64_t *end_ns;
	int64_t count;
	uint64_t last_ns; /* When the last event was, before them and then of them. */
};

/* Where slots and times of a point's events are put, behind the first ones; or who slept, and since
 * when. */
struct point {
	int64_t more; /* That the packets have. */
	uint32_t *slots;
	uint64_t *times_ns;
	int64_t count;
	int64_t room;
};

/* What is known of the events of a stream, and what is made of them. Of the times that those of
 * point n tell besides their own in, ``first_field[n]`` is the first, ``first_field[n + 1]`` none any
 * more. */
struct index {
	const int64_t *first_field;
	const int64_t *offset;
	const int64_t *may_be_zero;
	uint64_t earliest_ns;
	struct noted *noted; /* Of the lowest numbers. */
	/* Number of the point whose events tell of sleeps (one that no point has: none do), and where:
	 * the thread, since when it slept, and when it was let go. */
	int64_t slept;
	int64_t tid_at;
	int64_t off_at;
	int64_t wake_at;
	struct point *points; /* Of the lowest numbers; the last is of who slept. */
	/* Room for what each event of the packets has. */
	uint8_t *numbers;
	uint64_t *times_ns;
	uint32_t *tid;
	uint64_t *off_ns; /* NEVER: the thread was let go before. */
	int64_t room;
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
static inline bool possible(const struct index *index, const uint8_t *event)
{
	uint16_t number = number_of(event);

	for (int64_t field = index->first_field[number]; field < index->first_field[number + 1];
	     field++) {
		uint64_t told_ns = time_at(event, index->offset[field]);

		if (told_ns == 0 ? !index->may_be_zero[field] : told_ns < index->earliest_ns)
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

static bool is_within(const struct index *index)
{
	const uint64_t last = EVENT_BYTES - sizeof(uint64_t);

	if ((uint64_t)index->tid_at > last || (uint64_t)index->off_at > last ||
	    (uint64_t)index->wake_at > last)
		return false;
	for (int64_t number = 0; number < LOWEST; number++) {
		const struct noted *noted = &index->noted[number];

		if (noted->offset < 0 || noted->count < 0 || noted->count > FEW + 1 ||
		    noted->offset > (int64_t)(EVENT_BYTES - sizeof(uint32_t)))
			return false;
	}
	return true;
}

static inline void keep(const struct index *index, const uint8_t *event, int64_t at)
{
	uint64_t off_ns = time_at(event, index->off_at), wake_ns = time_at(event, index->wake_at);

	__builtin_memcpy(&index->tid[at], event + index->tid_at, sizeof(*index->tid));
	index->off_ns[at] = wake_ns && wake_ns < off_ns ? NEVER : off_ns;
}

/* How many events of each point there are. WRONG: one is not as it has to be; TOO_MANY: one's number
 * is none of the lowest. */
PUBLIC int64_t look_at_packets(struct packets *packets, const struct index *index)
{
	uint64_t last_ns = packets->last_ns;
	int64_t sleeps = 0, row = 0;

	if (!is_within(index))
		return WRONG;
	for (int64_t number = 0; number <= LOWEST; number++)
		index->points[number].more = 0;
	for (int64_t packet = 0; packet < packets->count; packet++) {
		int64_t first = packets->first_slot[packet], count = packets->in_packet[packet];

		if (first < 0 || count < 0 || first > packets->event_count ||
		    count > packets->event_count - first || count > index->room - row)
			return WRONG;
		for (int64_t slot = first; slot < first + count; slot++) {
			const uint8_t *event = packets->events + slot * EVENT_BYTES;
			uint64_t time_ns = time_at(event, 0);
			uint16_t number = number_of(event);

			__builtin_prefetch(event + AHEAD * EVENT_BYTES);
			if (time_ns < last_ns || time_ns < packets->begin_ns[packet] ||
			    time_ns > packets->end_ns[packet] || !possible(index, event))
				return WRONG;
			if (number >= LOWEST)
				return TOO_MANY;
			last_ns = time_ns;
			index->points[number].more++;
			index->numbers[row] = (uint8_t)number;
			index->times_ns[row++] = time_ns;
			if (number == index->slept)
				keep(index, event, sleeps++);
			if (index->noted[number].offset)
				note(&index->noted[number], event);
		}
	}
	index->points[LOWEST].more = sleeps;
	packets->last_ns = last_ns;
	return 0;
}

/* Of packets that were looked at; returns when the last event was. */
PUBLIC int64_t put_packets(const struct packets *packets, const struct index *index)
{
	struct point *slept = &index->points[LOWEST];
	int64_t row = 0;

	for (int64_t number = 0; number <= LOWEST; number++) {
		const struct point *point = &index->points[number];

		if (point->more > point->room - point->count)
			return WRONG;
	}
	for (int64_t packet = 0; packet < packets->count; packet++) {
		int64_t first = packets->first_slot[packet];

		for (int64_t slot = first; slot < first + packets->in_packet[packet];
		     slot++, row++) {
			struct point *point = &index->points[index->numbers[row]];

			point->slots[point->count] = (uint32_t)slot;
			point->times_ns[point->count++] = index->times_ns[row];
		}
	}
	for (int64_t sleep = 0; sleep < slept->more; sleep++, slept->count++) {
		slept->slots[slept->count] = index->tid[sleep];
		slept->times_ns[slept->count] = index->off_ns[sleep];
	}
	return (int64_t)packets->last_ns;
}
