/* SPDX-License-Identifier: Apache-2.0 */
/* A column of numbers, or the one number that all of its rows have. */
#ifndef COLUMN_H
#define COLUMN_H

#include <stdint.h>

/* ``step``: 1; 0: it has one number. In words of 64 bits, as Python has them. */
struct column {
	const int64_t *value;
	int64_t step;
};

static inline int64_t in_row(const struct column *column, int64_t row)
{
	return column->value[row * column->step];
}

/* A column that is filled row by row, in order. As long as all are one number, nothing is written:
 * memory that nobody writes to is none. */
struct filled {
	int64_t *to;
	int64_t one;
	int64_t varies; /* 0 at first. */
};

static inline void fill(struct filled *filled, int64_t row, int64_t value)
{
	if (!filled->varies) {
		if (!row)
			filled->one = value;
		if (value == filled->one)
			return;
		for (int64_t before = 0; before < row; before++)
			filled->to[before] = filled->one;
		filled->varies = 1;
	}
	filled->to[row] = value;
}

#endif
