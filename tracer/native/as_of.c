/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by key and time: the last at or before, the first at or after. Both the rows and what is
 * asked for are walked in order of time once, and each key's latest row is kept. */
#include "keys.h"
#include "native.h"

/* Returns the row that the key had before. */
static inline int64_t keep(const struct keys *latest, int64_t key, int64_t row)
{
	uint64_t place = place_of(latest, key);
	int64_t before = latest->number[place];

	latest->key[place] = key;
	latest->number[place] = (int32_t)row;
	return before;
}

/* ``order``: of the rows by time, stable; null: they are in it. */
static inline int64_t row_at(const int64_t *order, int64_t place)
{
	return order ? order[place] : place;
}

/* ``slot_key``, ``slot_row``: 1 << bits of them, more than there are rows. ``until``: of each row,
 * the last time that it is for; null: it is for all that are later. */
PUBLIC int64_t as_of_before(const int64_t *keys, const int64_t *times, const int64_t *order,
			    int64_t count, const int64_t *asked, const int64_t *at,
			    const int64_t *asked_order, int64_t asked_count, int64_t *slot_key,
			    int32_t *slot_row, int64_t bits, uint64_t seed, const int64_t *until,
			    int64_t *found)
{
	const struct keys latest = { slot_key, slot_row, bits, seed };
	int64_t place = 0;

	empty(&latest);
	for (int64_t i = 0; i < asked_count; i++) {
		int64_t query = row_at(asked_order, i), row;

		if ((uint64_t)query >= (uint64_t)asked_count)
			return WRONG;
		for (; place < count; place++) {
			row = row_at(order, place);
			if ((uint64_t)row >= (uint64_t)count)
				return WRONG;
			if (times[row] > at[query])
				break;
			keep(&latest, keys[row], row);
		}
		row = slot_row[place_of(&latest, asked[query])];
		found[query] = row >= 0 && until && at[query] > until[row] ? -1 : row;
	}
	return 0;
}

PUBLIC int64_t as_of_after(const int64_t *keys, const int64_t *times, const int64_t *order,
			   int64_t count, const int64_t *asked, const int64_t *at,
			   const int64_t *asked_order, int64_t asked_count, int64_t *slot_key,
			   int32_t *slot_row, int64_t bits, uint64_t seed, int64_t *found)
{
	const struct keys latest = { slot_key, slot_row, bits, seed };
	int64_t place = count - 1;

	empty(&latest);
	for (int64_t i = asked_count - 1; i >= 0; i--) {
		int64_t query = row_at(asked_order, i);

		if ((uint64_t)query >= (uint64_t)asked_count)
			return WRONG;
		for (; place >= 0; place--) {
			int64_t row = row_at(order, place);

			if ((uint64_t)row >= (uint64_t)count)
				return WRONG;
			if (times[row] < at[query])
				break;
			keep(&latest, keys[row], row);
		}
		found[query] = slot_row[place_of(&latest, asked[query])];
	}
	return 0;
}

/* Of each row, the next one of its key in order of time; -1: there is none. */
PUBLIC int64_t as_of_next(const int64_t *keys, const int64_t *order, int64_t count,
			  int64_t *slot_key, int32_t *slot_row, int64_t bits, uint64_t seed,
			  int64_t *found)
{
	const struct keys latest = { slot_key, slot_row, bits, seed };

	empty(&latest);
	for (int64_t place = count - 1; place >= 0; place--) {
		int64_t row = row_at(order, place);

		if ((uint64_t)row >= (uint64_t)count)
			return WRONG;
		found[row] = keep(&latest, keys[row], row);
	}
	return 0;
}
