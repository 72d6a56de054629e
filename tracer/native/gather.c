/* SPDX-License-Identifier: Apache-2.0 */
/* A point's events in the stream files to columns: some rows of all files, and all of an event's
 * fields while it is at hand. ``_copy`` of trace/points.py says it one file after the other. */
#include "native.h"

enum {
	EVENT_BYTES = 64,
	TOGETHER = 128 /* Rows: twice as many events stay in a core's first cache. */
};

/* What one file has of a point, in words of 64 bits, as Python has them: of each event the slot,
 * and the row. These ascend. */
struct part {
	const uint8_t *events;
	int64_t event_count;
	const uint32_t *slots;
	const uint32_t *places;
	int64_t count;
	int64_t span; /* No slots that are further apart are looked at. */
	/* Which of these were. */
	int64_t first;
	int64_t next;
};

/* Rows of the point from ``begin`` on, and columns for them; of each field its bytes, below 0 if it
 * has a sign. */
struct rows {
	struct part *parts;
	int64_t part_count;
	int64_t begin;
	int64_t count;
	const int64_t *offset;
	const int64_t *kind;
	int64_t fields;
	int64_t *columns;
};

#define COPY(type)                                                           \
	for (int64_t i = 0; i < count; i++) {                                \
		type value;                                                  \
		__builtin_memcpy(&value, events[i] + offset, sizeof(value)); \
		column[i] = (int64_t)value;                                  \
	}                                                                    \
	break

static void copy(const uint8_t *const *events, int64_t offset, int64_t count, int64_t kind,
		 int64_t *column)
{
	switch (kind) {
	case 1:
		COPY(uint8_t);
	case 2:
		COPY(uint16_t);
	case 4:
		COPY(uint32_t);
	case 8:
		COPY(uint64_t);
	case -1:
		COPY(int8_t);
	case -2:
		COPY(int16_t);
	case -4:
		COPY(int32_t);
	case -8:
		COPY(int64_t);
	}
}

/* The first from ``low`` to ``high`` that is no less. */
static int64_t first_from(const uint32_t *values, int64_t low, int64_t high, int64_t wanted)
{
	while (low < high) {
		int64_t middle = low + (high - low) / 2;

		if (values[middle] >= wanted)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Where a part's rows from ``begin`` on are; before which row its span ends, or ``end``. */
static int64_t limit(struct part *part, int64_t begin, int64_t end)
{
	int64_t last, beyond;

	part->first = part->next = first_from(part->places, 0, part->count, begin);
	last = first_from(part->places, part->first, part->count, end);
	if (part->first == last)
		return end;
	beyond = part->slots[part->first] + part->span;
	if (part->slots[last - 1] < beyond)
		return end;
	return part->places[first_from(part->slots, part->first + 1, last - 1, beyond)];
}

static int is_known(const struct rows *rows)
{
	for (int64_t i = 0; i < rows->fields; i++) {
		int64_t kind = rows->kind[i];

		if (kind < -8 || kind > 8 || rows->offset[i] < 0 ||
		    rows->offset[i] > EVENT_BYTES - (kind < 0 ? -kind : kind))
			return 0;
	}
	return 1;
}

/* Where a part's events before row ``end`` are, each of a row of its own; returns how many. They are
 * fetched all at once: nothing but their slots tells where they are. */
static int64_t fetch(struct part *part, int64_t begin, int64_t end, const uint8_t **events)
{
	int64_t first = part->next, i = first;

	for (; i < part->count && part->places[i] < end; i++) {
		const uint8_t *event = part->events + (int64_t)part->slots[i] * EVENT_BYTES;
		int64_t row = part->places[i] - begin;

		if (part->slots[i] >= part->event_count || row < 0 || events[row])
			return WRONG;
		__builtin_prefetch(event);
		events[row] = event;
	}
	part->next = i;
	return i - first;
}

/* The same of all parts: one event a row, or something is wrong. */
static int fetch_rows(const struct rows *rows, int64_t first, int64_t end, const uint8_t **events)
{
	int64_t some, found = 0;

	for (int64_t row = 0; row < end - first; row++)
		events[row] = 0;
	for (int64_t i = 0; i < rows->part_count; i++) {
		some = fetch(&rows->parts[i], first, end, events);
		if (some < 0)
			return WRONG;
		found += some;
	}
	return found == end - first ? 0 : WRONG;
}

static int64_t least(int64_t one, int64_t other)
{
	return one < other ? one : other;
}

/* Some rows are on their way while those before them are copied. */
static int copy_rows(const struct rows *rows, int64_t begin, int64_t end)
{
	const uint8_t *events[2][TOGETHER];
	int64_t next = least(begin + TOGETHER, end);
	int turn = 0;

	if (fetch_rows(rows, begin, next, events[turn]))
		return WRONG;
	for (int64_t first = begin; first < end; turn = !turn) {
		int64_t behind = least(next + TOGETHER, end);

		if (fetch_rows(rows, next, behind, events[!turn]))
			return WRONG;
		for (int64_t i = 0; i < rows->fields; i++)
			copy(events[turn], rows->offset[i], next - first, rows->kind[i],
			     rows->columns + i * rows->count + (first - rows->begin));
		first = next;
		next = behind;
	}
	return 0;
}

/* Returns how many rows there are, from row ``done`` of the columns on, before some part's span
 * ends. */
PUBLIC int64_t gather(const struct rows *rows, int64_t done)
{
	int64_t begin = rows->begin + done, end = rows->begin + rows->count;

	if (!is_known(rows))
		return WRONG;
	for (int64_t i = 0; i < rows->part_count; i++) {
		int64_t until = limit(&rows->parts[i], begin, end);

		end = until < end ? until : end;
	}
	if (end < begin || (end == begin && done < rows->count))
		return WRONG;
	return copy_rows(rows, begin, end) ? WRONG : end - begin;
}
