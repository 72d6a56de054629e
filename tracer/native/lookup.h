/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by key, each key's in order of time: what can be asked for in any order. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "keys.h"

/* Of the n-th key, the rows are those from ``first[n]`` on, before ``first[n + 1]``. In words of 64
 * bits, as Python has them. */
struct lookup {
	struct keys keys;
	int64_t *first;
	int64_t *row;
	int64_t *time_ns;
};

_Static_assert(sizeof(struct lookup) == 7 * sizeof(int64_t), "words");

/* The first place of a key, from ``low`` to ``high``, whose time is above one. */
static inline int64_t first_above(const struct lookup *lookup, int64_t low, int64_t high,
				  int64_t time_ns)
{
	while (low < high) {
		int64_t middle = low + (high - low) / 2;

		if (lookup->time_ns[middle] > time_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The row of a key that is the last one at or before a time; -1: there is none. */
static inline int64_t at_or_before(const struct lookup *lookup, int64_t key, int64_t time_ns)
{
	int64_t number = lookup->keys.number[place_of(&lookup->keys, key)], place;

	if (number < 0)
		return -1;
	place = first_above(lookup, lookup->first[number], lookup->first[number + 1], time_ns);
	return place > lookup->first[number] ? lookup->row[place - 1] : -1;
}

/* The first one at or after it. */
static inline int64_t at_or_after(const struct lookup *lookup, int64_t key, int64_t time_ns)
{
	int64_t number = lookup->keys.number[place_of(&lookup->keys, key)], place;

	if (number < 0)
		return -1;
	place = lookup->first[number];
	if (time_ns > INT64_MIN)
		place = first_above(lookup, place, lookup->first[number + 1], time_ns - 1);
	return place < lookup->first[number + 1] ? lookup->row[place] : -1;
}

#endif
