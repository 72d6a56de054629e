/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by a column of whole numbers, the stable order: digit by digit, of those that differ. */
#include <stdbool.h>

#include "native.h"

enum {
	DIGIT_BITS = 11,
	DIGITS = 1 << DIGIT_BITS,
	MOST_PASSES = (64 + DIGIT_BITS - 1) / DIGIT_BITS,
	FEW = 32,
	MOVES = 8
};

struct placed {
	uint64_t above; /* How far it is above the least. */
	int64_t row;
};

/* What is nearly in order (times of several CPUs) moves no further than a few places each. Returns
 * whether it was so: if not, rows are where they came to by then. */
static bool insert(struct placed *rows, int64_t count)
{
	int64_t left = FEW * FEW + MOVES * count;

	for (int64_t i = 1; i < count; i++) {
		struct placed row = rows[i];
		int64_t at = i;

		for (; at && row.above < rows[at - 1].above; at--)
			rows[at] = rows[at - 1];
		rows[at] = row;
		left -= i - at;
		if (left < 0)
			return false;
	}
	return true;
}

/* Returns which of the two the rows are in. */
static const struct placed *by_digits(struct placed *rows, struct placed *others, int64_t count,
				      uint64_t told)
{
	int64_t first[DIGITS];

	for (int shift = 0; shift < MOST_PASSES * DIGIT_BITS && told >> shift;
	     shift += DIGIT_BITS) {
		struct placed *from = rows;
		int64_t before = 0;

		/* Pointers are aligned, and what is close together differs in few bits. */
		if (!(told >> shift & (DIGITS - 1)))
			continue;
		for (int digit = 0; digit < DIGITS; digit++)
			first[digit] = 0;
		for (int64_t i = 0; i < count; i++)
			first[from[i].above >> shift & (DIGITS - 1)]++;
		for (int digit = 0; digit < DIGITS; digit++) {
			int64_t own = first[digit];

			first[digit] = before;
			before += own;
		}
		for (int64_t i = 0; i < count; i++)
			others[first[from[i].above >> shift & (DIGITS - 1)]++] = from[i];
		rows = others;
		others = from;
	}
	return rows;
}

/* ``order``: of the rows before, a permutation, and by the key then. ``rows``, ``others``: room for
 * as many. */
PUBLIC int64_t order_by(const int64_t *key, int64_t count, int64_t *order, struct placed *rows,
			struct placed *others)
{
	int64_t least = INT64_MAX, last = INT64_MIN;
	const struct placed *found = rows;
	bool ascends = true;
	uint64_t told = 0;

	for (int64_t i = 0; i < count; i++) {
		int64_t value;

		if ((uint64_t)order[i] >= (uint64_t)count)
			return WRONG;
		value = key[order[i]];
		rows[i].above = (uint64_t)value;
		rows[i].row = order[i];
		ascends &= value >= last;
		last = value;
		least = value < least ? value : least;
	}
	if (ascends)
		return 0;
	for (int64_t i = 0; i < count; i++) {
		rows[i].above -= (uint64_t)least;
		told |= rows[i].above;
	}
	if (!insert(rows, count))
		found = by_digits(rows, others, count, told);
	for (int64_t i = 0; i < count; i++)
		order[i] = found[i].row;
	return 0;
}
