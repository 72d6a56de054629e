/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that overlap with intervals of their key. */
#include "lookup.h"
#include "native.h"

/* The place of the first row of a key whose time is above one; and that behind its last row. */
static int64_t first_behind(const struct lookup *lookup, int64_t key, int64_t time_ns,
			    int64_t *behind)
{
	int64_t number = lookup->keys.number[place_of(&lookup->keys, key)];

	*behind = 0;
	if (number < 0)
		return 0;
	*behind = lookup->first[number + 1];
	return place_above(lookup, number, time_ns);
}

/* ``ended``: waits by key, and by when they ended; those of one key do not overlap. Returns how many
 * pairs there are, of which as many are written as there is ``room``. */
PUBLIC int64_t overlap_waits(const struct lookup *ended, int64_t waits, const int64_t *wait_begins,
			     const int64_t *keys, const int64_t *begins, const int64_t *ends,
			     int64_t count, int64_t *left, int64_t *right, int64_t room)
{
	int64_t pairs = 0;

	for (int64_t row = 0; row < count; row++) {
		int64_t behind, place = first_behind(ended, keys[row], begins[row], &behind);

		for (; place < behind; place++) {
			int64_t wait = ended->row[place];

			if ((uint64_t)wait >= (uint64_t)waits)
				return WRONG;
			if (wait_begins[wait] >= ends[row])
				break;
			if (pairs < room) {
				left[pairs] = row;
				right[pairs] = wait;
			}
			pairs++;
		}
	}
	return pairs;
}
