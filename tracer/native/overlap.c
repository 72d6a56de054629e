/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of intervals of one key that overlap. */
#include "ascending.h"
#include "native.h"

/* Rows by key, then in the order that is wanted within it; null: they are in it. */
struct side {
	const int64_t *keys;
	const int64_t *begins;
	const int64_t *ends;
	const int64_t *order;
	int64_t count;
};

static inline int64_t row_at(const struct side *side, int64_t place)
{
	return side->order ? side->order[place] : place;
}

/* Returns how many pairs there are, of which as many are written as there is ``room``. ``begin_at``,
 * ``reach``: room for one of each of the others. ``most``: of how many at each end of a row's
 * interval, where there are more than both; 0: of all. */
PUBLIC int64_t overlap(const int64_t *keys, const int64_t *begins, const int64_t *ends,
		       const int64_t *order, int64_t count, const int64_t *other_keys,
		       const int64_t *other_begins, const int64_t *other_ends,
		       const int64_t *other_order, int64_t other_count, int64_t most,
		       int64_t *begin_at, int64_t *reach, int64_t *left, int64_t *right,
		       int64_t room)
{
	const struct side mine = { keys, begins, ends, order, count };
	const struct side theirs = { other_keys, other_begins, other_ends, other_order,
				     other_count };
	int64_t place = 0, pairs = 0;

	for (int64_t i = 0; i < count; i++)
		if ((uint64_t)row_at(&mine, i) >= (uint64_t)count)
			return WRONG;
	for (int64_t i = 0; i < other_count; i++)
		if ((uint64_t)row_at(&theirs, i) >= (uint64_t)other_count)
			return WRONG;
	for (int64_t low = 0, high; low < other_count; low = high) {
		int64_t key = other_keys[row_at(&theirs, low)];
		int64_t first = low;

		for (high = low; high < other_count; high++) {
			int64_t row = row_at(&theirs, high);

			if (other_keys[row] != key)
				break;
			begin_at[high] = other_begins[row];
			reach[high] = high > low && reach[high - 1] > other_ends[row]
					      ? reach[high - 1]
					      : other_ends[row];
		}
		while (place < count && keys[row_at(&mine, place)] < key)
			place++;
		for (; place < count; place++) {
			int64_t row = row_at(&mine, place), last, skipped;

			if (keys[row] != key)
				break;
			first = first_above(reach, low, high, first, begins[row]);
			last = first_from(begin_at, low, high, first, ends[row]);
			skipped = most && last - first > 2 * most ? last - most : last;
			for (int64_t at = first; at < last; at++) {
				int64_t other;

				if (at == first + most && skipped < last)
					at = skipped;
				other = row_at(&theirs, at);
				if (other_ends[other] <= begins[row])
					continue;
				if (pairs < room) {
					left[pairs] = row;
					right[pairs] = other;
				}
				pairs++;
			}
		}
	}
	return pairs;
}
