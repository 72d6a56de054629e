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

#endif
