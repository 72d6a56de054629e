/* SPDX-License-Identifier: Apache-2.0 */
/* A point's events in a stream file to columns: all of an event's fields while it is at hand. */
#include "native.h"

enum {
	EVENT_BYTES = 64,
	TOGETHER = 128
};

#define COPY(type)                                                                                 \
	for (int64_t i = 0; i < count; i++) {                                                      \
		type value;                                                                        \
		__builtin_memcpy(&value, events + (int64_t)slots[i] * EVENT_BYTES, sizeof(value)); \
		column[places[i] - begin] = (int64_t)value;                                        \
	}                                                                                          \
	break

static void copy(const uint8_t *events, const uint32_t *slots, const uint32_t *places,
		 int64_t count, int64_t begin, int64_t kind, int64_t *column)
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

/* ``kind``: of each field, its bytes, below 0 if it has a sign. ``places``: row of each event
 * behind ``begin``, in columns of ``rows``. */
PUBLIC int64_t gather(const uint8_t *events, int64_t event_count, const uint32_t *slots,
		      const uint32_t *places, int64_t count, int64_t begin, int64_t rows,
		      const int64_t *offset, const int64_t *kind, int64_t *columns, int64_t fields)
{
	for (int64_t i = 0; i < count; i++) {
		int64_t row = (int64_t)places[i] - begin;

		if (slots[i] >= event_count || (uint64_t)row >= (uint64_t)rows)
			return WRONG;
	}
	for (int64_t field = 0; field < fields; field++) {
		if (kind[field] < -8 || kind[field] > 8 || offset[field] < 0 ||
		    offset[field] > EVENT_BYTES - (kind[field] < 0 ? -kind[field] : kind[field]))
			return WRONG;
	}
	for (int64_t i = 0; i < count; i += TOGETHER) {
		int64_t some = count - i < TOGETHER ? count - i : TOGETHER;

		for (int64_t field = 0; field < fields; field++)
			copy(events + offset[field], slots + i, places + i, some, begin,
			     kind[field], columns + field * rows);
	}
	return 0;
}
