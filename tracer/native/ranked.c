/* SPDX-License-Identifier: Apache-2.0 */
/* Some of many numbers by their places in order, without putting all in it: how many there are of
 * each of the highest digits tells that of the one in question, and so on downwards. */
#include "native.h"

enum {
	WORD = 64,
	DIGIT_BITS = 10,
	DIGITS = 1 << DIGIT_BITS
};

struct numbers {
	const int64_t *value;
	int64_t count;
	uint64_t least;
};

/* How many have which digit at ``shift``, of those that are ``above`` the least by what is higher;
 * and behind these of the others, as the CPU cannot know beforehand which they are. */
static void count_digits(const struct numbers *numbers, int shift, uint64_t above, int64_t *found)
{
	for (int digit = 0; digit < 2 * DIGITS; digit++)
		found[digit] = 0;
	for (int64_t i = 0; i < numbers->count; i++) {
		uint64_t one = ((uint64_t)numbers->value[i] - numbers->least) >> shift;
		uint64_t other = one >> DIGIT_BITS != above;

		found[other << DIGIT_BITS | (one & (DIGITS - 1))]++;
	}
}

/* The digit of that with so many before it. Those of the same digit are what is left of them. */
static uint64_t digit_of(const int64_t *counts, int64_t *before)
{
	uint64_t digit = 0;

	while (digit < DIGITS - 1 && *before >= counts[digit])
		*before -= counts[digit++];
	return digit;
}

/* ``found``: of each of some places, the number that is there in ascending order. */
PUBLIC int64_t ranked(const int64_t *values, int64_t count, const int64_t *places, int64_t wanted,
		      int64_t *found)
{
	int64_t highest[2 * DIGITS], lower[2 * DIGITS], least = INT64_MAX, most = INT64_MIN;
	struct numbers numbers = { values, count, 0 };
	uint64_t told;
	int top = 0;

	for (int64_t i = 0; i < wanted; i++)
		if (places[i] < 0 || places[i] >= count)
			return WRONG;
	for (int64_t i = 0; i < count; i++) {
		least = values[i] < least ? values[i] : least;
		most = values[i] > most ? values[i] : most;
	}
	numbers.least = (uint64_t)least;
	told = (uint64_t)most - (uint64_t)least;
	while (top + DIGIT_BITS < WORD && told >> (top + DIGIT_BITS))
		top += DIGIT_BITS;
	count_digits(&numbers, top, 0, highest);
	for (int64_t i = 0; i < wanted; i++) {
		int64_t before = places[i];
		uint64_t above = digit_of(highest, &before);

		for (int shift = top - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
			count_digits(&numbers, shift, above, lower);
			above = above << DIGIT_BITS | digit_of(lower, &before);
		}
		found[i] = (int64_t)(numbers.least + above);
	}
	return 0;
}
