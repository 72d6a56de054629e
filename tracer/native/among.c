/* SPDX-License-Identifier: Apache-2.0 */
/* Which of some numbers are among others, however many those are and in whatever order. */
#include "keys.h"
#include "native.h"

enum {
	MARK_BITS = 3
};

/* A bit of each of eight times as many places as there are for keys: most of the others meet none
 * that is set, and need not be looked for. */
static inline uint64_t mark_of(const struct keys *known, int64_t number)
{
	return hash_of(known, number) >> (64 - MARK_BITS - known->bits);
}

/* ``found``: of each of the numbers, which differ, 1 or what it was. ``marks``: a byte of each place,
 * 0 at first. */
PUBLIC int64_t among(const int64_t *numbers, int64_t count, const int64_t *others,
		     int64_t other_count, int64_t *slot_key, int32_t *slot_number, int64_t bits,
		     uint64_t seed, uint8_t *marks, uint8_t *found)
{
	const struct keys known = { slot_key, slot_number, bits, seed };

	empty(&known);
	for (int64_t i = 0; i < count; i++) {
		uint64_t place = place_of(&known, numbers[i]), mark = mark_of(&known, numbers[i]);

		marks[mark >> MARK_BITS] |= (uint8_t)(1 << mark % 8);
		known.key[place] = numbers[i];
		known.number[place] = (int32_t)i;
	}
	for (int64_t i = 0; i < other_count; i++) {
		uint64_t mark = mark_of(&known, others[i]);
		int32_t number;

		if (!(marks[mark >> MARK_BITS] >> mark % 8 & 1))
			continue;
		number = known.number[place_of(&known, others[i])];
		if (number >= 0)
			found[number] = 1;
	}
	return 0;
}
