/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by key and time: the last at or before, the first at or after, of few of many rows. */
#include "lookup.h"
#include "native.h"

static inline int64_t number_of(const struct keys *keys, int64_t key, int32_t *count)
{
	uint64_t place = place_of(keys, key);

	if (keys->number[place] < 0) {
		keys->key[place] = key;
		keys->number[place] = (*count)++;
	}
	return keys->number[place];
}

/* ``order``: of the rows by time, stable; null: they are in it. ``first``: two more than rows, all
 * 0; ``number``, and what the lookup has beside its keys: one of each row. */
PUBLIC int64_t lookup_make(const int64_t *keys, const int64_t *times, const int64_t *order,
			   int64_t count, const struct lookup *lookup, int32_t *number)
{
	int32_t numbers = 0;

	empty(&lookup->keys);
	for (int64_t row = 0; row < count; row++) {
		number[row] = (int32_t)number_of(&lookup->keys, keys[row], &numbers);
		lookup->first[number[row] + 2]++;
	}
	for (int32_t key = 0; key < numbers; key++)
		lookup->first[key + 2] += lookup->first[key + 1];
	/* By the end each key's rows begin where those of the one before it end. */
	for (int64_t place = 0; place < count; place++) {
		int64_t row = order ? order[place] : place, at;

		if ((uint64_t)row >= (uint64_t)count)
			return WRONG;
		at = lookup->first[number[row] + 1]++;
		if (at >= count)
			return WRONG;
		lookup->row[at] = row;
		lookup->time_ns[at] = times[row];
	}
	return 0;
}

/* ``found``: the rows, -1: there is none. ``until``: of each row that may be found before a time,
 * the last time that it is for; null: it is for all that are later. */
PUBLIC int64_t lookup_find(const struct lookup *lookup, const int64_t *asked, const int64_t *at,
			   int64_t count, int64_t after, const int64_t *until, int64_t *found)
{
	for (int64_t i = 0; i < count; i++) {
		int64_t row = after ? at_or_after(lookup, asked[i], at[i])
				    : at_or_before(lookup, asked[i], at[i]);

		found[i] = row >= 0 && until && at[i] > until[row] ? -1 : row;
	}
	return 0;
}
