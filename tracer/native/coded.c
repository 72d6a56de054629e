/* SPDX-License-Identifier: Apache-2.0 */
/* Values that lie close together, by their place among the different ones. */
#include "native.h"

/* Returns how many different values there are, which come to ``unique`` in order. ``place``: of
 * ``span`` numbers from ``least`` on, 0 at first. ``code``: of each value its place in ``unique``,
 * which has room for as many as there are of the one or the other. */
PUBLIC int64_t coded(const int64_t *values, int64_t count, int64_t least, int64_t span,
		     int32_t *place, int64_t *unique, int64_t *code)
{
	int32_t different = 0;

	for (int64_t i = 0; i < count; i++) {
		uint64_t above = (uint64_t)values[i] - (uint64_t)least;

		if (above >= (uint64_t)span)
			return WRONG;
		place[above] = 1;
	}
	for (int64_t above = 0; above < span; above++) {
		if (!place[above])
			continue;
		unique[different] = least + above;
		place[above] = different++;
	}
	for (int64_t i = 0; i < count; i++)
		code[i] = place[(uint64_t)values[i] - (uint64_t)least];
	return different;
}
