/* SPDX-License-Identifier: Apache-2.0 */
/* Some of many numbers by their places in order, without putting all in it: how many there are of
 * each of the highest digits tells that of the one in question, and so on downwards. */
#include "native.h"

enum {
	WORD = 64,
	DIGIT_BITS = 10,
	DIGITS = 1 << DIGIT_BITS,
	MOST = 4
};

struct numbers {
	const int64_t *value;
	int64_t count;
	uint64_t least;
};

/* What is known of the numbers at some places: what each is ``above`` the least by its digits so far,
 * which is one of few, and how many there are of these ``before`` it. */
struct places {
	uint64_t above[MOST];
	int64_t which[MOST];
	int64_t before[MOST];
	int64_t different;
	int64_t count;
};

/* How many have which digit at ``shift``, of those that are above the least by as much as the places
 * are; and of the others behind them, as the CPU cannot know beforehand which they are. */
static void count_digits(const struct numbers *numbers, int shift, const struct places *places,
			 int64_t found[][DIGITS])
{
	int64_t different = places->different;

	for (int64_t i = 0; i <= different; i++)
		for (int digit = 0; digit < DIGITS; digit++)
			found[i][digit] = 0;
	for (int64_t i = 0; i < numbers->count; i++) {
		uint64_t one = ((uint64_t)numbers->value[i] - numbers->least) >> shift;
		int64_t which = different;

		for (int64_t each = 0; each < different; each++)
			which = one >> DIGIT_BITS == places->above[each] ? each : which;
		found[which][one & (DIGITS - 1)]++;
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

/* One digit more of each of the places. */
static void tell(const struct numbers *numbers, int shift, struct places *places)
{
	int64_t counts[MOST + 1][DIGITS];
	struct places told = { .count = places->count };

	count_digits(numbers, shift, places, counts);
	for (int64_t i = 0; i < places->count; i++) {
		int64_t which = places->which[i], same = 0;
		uint64_t above;

		told.before[i] = places->before[i];
		above = places->above[which] << DIGIT_BITS |
			digit_of(counts[which], told.before + i);
		while (same < told.different && told.above[same] != above)
			same++;
		told.different += same == told.different;
		told.above[same] = above;
		told.which[i] = same;
	}
	*places = told;
}

/* ``found``: of each of some places, the number that is there in ascending order. */
PUBLIC int64_t ranked(const int64_t *values, int64_t count, const int64_t *wanted, int64_t places,
		      int64_t *found)
{
	int64_t least = INT64_MAX, most = INT64_MIN;
	struct numbers numbers = { values, count, 0 };
	uint64_t told;
	int top = 0;

	for (int64_t i = 0; i < places; i++)
		if (wanted[i] < 0 || wanted[i] >= count)
			return WRONG;
	for (int64_t i = 0; i < count; i++) {
		least = values[i] < least ? values[i] : least;
		most = values[i] > most ? values[i] : most;
	}
	numbers.least = (uint64_t)least;
	told = (uint64_t)most - (uint64_t)least;
	while (top + DIGIT_BITS < WORD && told >> (top + DIGIT_BITS))
		top += DIGIT_BITS;
	for (int64_t first = 0; first < places; first += MOST) {
		struct places some = { .different = 1,
				       .count = places - first < MOST ? places - first : MOST };

		for (int64_t i = 0; i < some.count; i++)
			some.before[i] = wanted[first + i];
		for (int shift = top; shift >= 0; shift -= DIGIT_BITS)
			tell(&numbers, shift, &some);
		for (int64_t i = 0; i < some.count; i++)
			found[first + i] = (int64_t)(numbers.least + some.above[some.which[i]]);
	}
	return 0;
}
