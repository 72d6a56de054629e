/* SPDX-License-Identifier: Apache-2.0 */
/* Values that ascend. */
#ifndef ASCENDING_H
#define ASCENDING_H

#include <stdint.h>

/* The first place from ``low`` to ``high`` whose value is above ``wanted``, most likely close to
 * ``near``: what is asked for mostly ascends. */
static inline int64_t first_above(const int64_t *values, int64_t low, int64_t high, int64_t near,
				  int64_t wanted)
{
	int64_t step = 1;

	if (near < low || near > high)
		near = low;
	if (near > low && values[near - 1] > wanted) {
		high = near - 1;
	} else {
		low = near;
		while (low + step < high && values[low + step] <= wanted) {
			low += step;
			step *= 2;
		}
		high = low + step < high ? low + step : high;
	}
	while (low < high) {
		int64_t middle = low + (high - low) / 2;

		if (values[middle] > wanted)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The same, of those that are no less. */
static inline int64_t first_from(const int64_t *values, int64_t low, int64_t high, int64_t near,
				 int64_t wanted)
{
	return wanted > INT64_MIN ? first_above(values, low, high, near, wanted - 1) : low;
}

#endif
