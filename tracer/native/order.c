/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by a column of whole numbers, the stable order: each row's number and its place before are
 * one, which is put in order digit by digit, by those that differ. */
#include <stdbool.h>

#include "native.h"

enum {
	WORD = 64,
	HALF = 32,
	DIGIT_BITS = 11,
	DIGITS = 1 << DIGIT_BITS,
	MOST_DIGITS = (WORD + DIGIT_BITS - 1) / DIGIT_BITS,
	FEW = 256,
	MOVES = 8
};

static inline int bits_of(uint64_t number)
{
	return number ? WORD - __builtin_clzll(number) : 0;
}

/* What is nearly in order (times of several CPUs) moves no further than a few places each. Returns
 * whether it was so: if not, they are where they came to by then. */
static bool insert(uint64_t *placed, int64_t count)
{
	int64_t left = FEW;

	for (int64_t i = 1; i < count; i++) {
		uint64_t one = placed[i];
		int64_t at = i;

		for (; at && one < placed[at - 1]; at--)
			placed[at] = placed[at - 1];
		placed[at] = one;
		left += MOVES - (i - at);
		if (left < 0)
			return false;
	}
	return true;
}

/* By the bits from ``low`` on, of which those of ``told`` differ. Returns which of the two they
 * are in. */
static uint64_t *by_digits(uint64_t *placed, uint64_t *others, int64_t count, int low,
			   uint64_t told)
{
	uint32_t first[MOST_DIGITS][DIGITS];
	int digits = 0;

	while (low + digits * DIGIT_BITS < WORD && told >> (low + digits * DIGIT_BITS))
		digits++;
	for (int digit = 0; digit < digits; digit++)
		for (int value = 0; value < DIGITS; value++)
			first[digit][value] = 0;
	for (int64_t i = 0; i < count; i++)
		for (int digit = 0; digit < digits; digit++)
			first[digit][placed[i] >> (low + digit * DIGIT_BITS) & (DIGITS - 1)]++;
	for (int digit = 0; digit < digits; digit++) {
		int shift = low + digit * DIGIT_BITS;
		uint64_t *from = placed;
		uint32_t before = 0;

		if (!(told >> shift & (DIGITS - 1)))
			continue;
		for (int value = 0; value < DIGITS; value++) {
			uint32_t own = first[digit][value];

			first[digit][value] = before;
			before += own;
		}
		for (int64_t i = 0; i < count; i++)
			others[first[digit][from[i] >> shift & (DIGITS - 1)]++] = from[i];
		placed = others;
		others = from;
	}
	return placed;
}

/* By some bits of how far each key is above the least. ``as_is``: the order is that of the rows. */
static void by_bits(const int64_t *key, int64_t count, uint64_t least, int first, int bits,
		    bool as_is, int64_t *order, uint64_t *placed, uint64_t *others)
{
	uint64_t mask = bits < WORD ? ((uint64_t)1 << bits) - 1 : ~(uint64_t)0, told = 0;
	int low = bits_of((uint64_t)count - 1);
	uint64_t places = ((uint64_t)1 << low) - 1;

	for (int64_t i = 0; i < count; i++) {
		int64_t row = as_is ? i : order[i];
		uint64_t above = ((uint64_t)key[row] - least) >> first & mask;

		placed[i] = above << low | (uint64_t)i;
		told |= placed[i];
	}
	if (!insert(placed, count)) {
		uint64_t *found = by_digits(placed, others, count, low, told);

		others = found == placed ? others : placed;
		placed = found;
	}
	if (as_is) {
		for (int64_t i = 0; i < count; i++)
			order[i] = (int64_t)(placed[i] & places);
		return;
	}
	for (int64_t i = 0; i < count; i++)
		others[i] = (uint64_t)order[placed[i] & places];
	for (int64_t i = 0; i < count; i++)
		order[i] = (int64_t)others[i];
}

/* By keys that are less than there are rows: how many have each tells where those of the next one are.
 * ``first``: room for that. */
static void by_counts(const int64_t *key, int64_t count, uint64_t least, uint64_t different,
		      bool as_is, int64_t *order, uint64_t *first, uint64_t *others)
{
	uint64_t before = 0;

	for (uint64_t value = 0; value < different; value++)
		first[value] = 0;
	for (int64_t i = 0; i < count; i++)
		first[(uint64_t)key[i] - least]++;
	for (uint64_t value = 0; value < different; value++) {
		uint64_t own = first[value];

		first[value] = before;
		before += own;
	}
	if (as_is) {
		for (int64_t i = 0; i < count; i++)
			order[first[(uint64_t)key[i] - least]++] = i;
		return;
	}
	for (int64_t i = 0; i < count; i++)
		others[first[(uint64_t)key[order[i]] - least]++] = (uint64_t)order[i];
	for (int64_t i = 0; i < count; i++)
		order[i] = (int64_t)others[i];
}

/* ``order``: of the rows before, a permutation, and by the key then. ``as_is``: before it is that of
 * the rows, whatever is there. ``placed``, ``others``: room for as many. */
PUBLIC int64_t order_by(const int64_t *key, int64_t count, int64_t as_is, int64_t *order,
			uint64_t *placed, uint64_t *others)
{
	int64_t least = INT64_MAX, most = INT64_MIN, last = INT64_MIN;
	bool ascends = true;
	int bits;

	if (count >= (int64_t)1 << HALF)
		return TOO_MANY;
	for (int64_t i = 0; i < count; i++) {
		int64_t value;

		if (as_is)
			order[i] = i;
		if ((uint64_t)order[i] >= (uint64_t)count)
			return WRONG;
		value = key[order[i]];
		ascends &= value >= last;
		last = value;
		least = value < least ? value : least;
		most = value > most ? value : most;
	}
	if (ascends)
		return 0;
	if ((uint64_t)most - (uint64_t)least < (uint64_t)count) {
		by_counts(key, count, (uint64_t)least, (uint64_t)most - (uint64_t)least + 1, as_is,
			  order, placed, others);
		return 0;
	}
	bits = bits_of((uint64_t)most - (uint64_t)least);
	if (bits + bits_of((uint64_t)count - 1) <= WORD) {
		by_bits(key, count, (uint64_t)least, 0, bits, as_is, order, placed, others);
		return 0;
	}
	by_bits(key, count, (uint64_t)least, 0, HALF, as_is, order, placed, others);
	by_bits(key, count, (uint64_t)least, HALF, HALF, false, order, placed, others);
	return 0;
}

/* The values themselves in order. ``others``: room for as many. */
PUBLIC int64_t sort_values(const int64_t *values, int64_t count, uint64_t *sorted, uint64_t *others)
{
	uint64_t least = count ? (uint64_t)values[0] : 0, told = 0, *found = sorted;

	if (count >= (int64_t)1 << HALF)
		return TOO_MANY;
	for (int64_t i = 0; i < count; i++)
		least = values[i] < (int64_t)least ? (uint64_t)values[i] : least;
	for (int64_t i = 0; i < count; i++) {
		sorted[i] = (uint64_t)values[i] - least;
		told |= sorted[i];
	}
	if (!insert(sorted, count))
		found = by_digits(sorted, others, count, 0, told);
	for (int64_t i = 0; i < count; i++)
		sorted[i] = found[i] + least;
	return 0;
}
