/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by key, each key's in order of time: what can be asked for in any order. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "ascending.h"
#include "keys.h"

/* Of the n-th key, the rows are those from ``first[n]`` on, before ``first[n + 1]``; ``near[n]``:
 * close to what was found last, any number at first. In words of 64 bits, as Python has them. */
struct lookup {
	struct keys keys;
	int64_t *first;
	int64_t *row;
	int64_t *time_ns;
	int64_t *near;
};

_Static_assert(sizeof(struct lookup) == 8 * sizeof(int64_t), "words");

/* The first place of the n-th key whose time is above one. */
static inline int64_t place_above(const struct lookup *lookup, int64_t n, int64_t time_ns)
{
	return lookup->near[n] = first_above(lookup->time_ns, lookup->first[n],
					     lookup->first[n + 1], lookup->near[n], time_ns);
}

/* The row of a key that is the last one at or before a time; -1: there is none. */
static inline int64_t at_or_before(const struct lookup *lookup, int64_t key, int64_t time_ns)
{
	int64_t number = lookup->keys.number[place_of(&lookup->keys, key)], place;

	if (number < 0)
		return -1;
	place = place_above(lookup, number, time_ns);
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
		place = place_above(lookup, number, time_ns - 1);
	return place < lookup->first[number + 1] ? lookup->row[place] : -1;
}

#endif
