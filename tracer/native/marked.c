/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers are there. */
#include "native.h"

/* ``found``: of each number from 0 on, below ``most``, 1 if it is there, or what it was. */
PUBLIC int64_t marked(const int64_t *numbers, int64_t count, uint8_t *found, int64_t most)
{
	for (int64_t i = 0; i < count; i++)
		if ((uint64_t)numbers[i] < (uint64_t)most)
			found[numbers[i]] = 1;
	return 0;
}
