/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of half the bits that their sums may have, most of which fit into as many. */
#include "native.h"

/* Adds a number to the sum of each of some rows. Where one has no room all are as they were. */
PUBLIC int64_t add_narrow(uint32_t *sums, int64_t count, const int64_t *rows,
			  const uint32_t *numbers, int64_t added)
{
	int64_t i, result = 0;

	for (i = 0; i < added; i++) {
		if ((uint64_t)rows[i] >= (uint64_t)count) {
			result = WRONG;
			break;
		}
		if (__builtin_add_overflow(sums[rows[i]], numbers[i], &sums[rows[i]])) {
			sums[rows[i]] -= numbers[i];
			result = TOO_MANY;
			break;
		}
	}
	while (result && i--)
		sums[rows[i]] -= numbers[i];
	return result;
}
