/* SPDX-License-Identifier: Apache-2.0 */
/* Rows to numbers: the same for rows that are alike in all of some columns, from 0 on, in the order
 * in which the first of each comes (``numbers`` of columns.py tells them apart by sorting). */
#include <stdbool.h>

#include "keys.h"
#include "native.h"

/* Few of many rows differ: then only they are looked for. */
static inline bool alike(const int64_t *const *columns, int64_t count, int64_t one, int64_t other)
{
	for (int64_t i = 0; i < count; i++)
		if (columns[i][one] != columns[i][other])
			return false;
	return true;
}

static inline uint64_t first_place(const struct keys *keys, const int64_t *const *columns,
				   int64_t count, int64_t row)
{
	uint64_t mixed = 0;

	for (int64_t i = 0; i < count; i++)
		mixed = hash_of(keys, (int64_t)(mixed ^ (uint64_t)columns[i][row]));
	return mixed >> (64 - keys->bits);
}

/* Returns how many there are, TOO_MANY: more than half of the places. ``keys``: its numbers are
 * rows, of which the first of each number is there. */
PUBLIC int64_t numbered(const int64_t *const *columns, int64_t column_count, int64_t rows,
			const struct keys *keys, int64_t *number)
{
	int64_t most = (int64_t)1 << (keys->bits - 1), numbers = 0;
	uint64_t last = ((uint64_t)1 << keys->bits) - 1;

	empty(keys);
	for (int64_t row = 0; row < rows; row++) {
		uint64_t place;

		if (row && alike(columns, column_count, row - 1, row)) {
			number[row] = number[row - 1];
			continue;
		}
		place = first_place(keys, columns, column_count, row);
		while (keys->number[place] >= 0 &&
		       !alike(columns, column_count, keys->number[place], row))
			place = (place + 1) & last;
		if (keys->number[place] < 0) {
			if (numbers == most)
				return TOO_MANY;
			keys->number[place] = (int32_t)row;
			number[row] = numbers++;
		} else {
			number[row] = number[keys->number[place]];
		}
	}
	return numbers;
}
