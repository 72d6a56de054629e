/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of activities as those of who waited for them. */
#include "native.h"

/* The spans are by their owners; of each edge, ``first`` and ``count`` say which are its activity's,
 * and ``kind`` which row of ``seen`` (``kinds`` rows of ``ranks``, null: ranks stay) says what they
 * come to. There is room for all that can be. Returns how many are left: those that are anybody's,
 * and of some time. */
PUBLIC int64_t follow(const int16_t *rank, const int64_t *begin_ns, const int64_t *end_ns,
		      const int64_t *of, int64_t spans, const int64_t *first, const int64_t *count,
		      const int64_t *write, const int64_t *since_ns, const int64_t *until_ns,
		      const int64_t *kind, int64_t edges, const int16_t *seen, int64_t kinds,
		      int64_t ranks, int64_t room, int64_t *found_owner, int16_t *found_rank,
		      int64_t *found_begin, int64_t *found_end, int64_t *found_of)
{
	int64_t rows = 0;

	for (int64_t edge = 0; edge < edges; edge++) {
		int64_t since = since_ns[edge], until = until_ns[edge], last;

		if (!count[edge] || write[edge] < 0)
			continue;
		if (count[edge] < 0 || first[edge] < 0 || count[edge] > spans ||
		    first[edge] > spans - count[edge] || count[edge] > room - rows ||
		    (seen && (uint64_t)kind[edge] >= (uint64_t)kinds))
			return WRONG;
		last = first[edge] + count[edge];
		for (int64_t span = first[edge]; span < last; span++) {
			int64_t begin = begin_ns[span] > since ? begin_ns[span] : since;
			int64_t end = end_ns[span] < until ? end_ns[span] : until;
			int16_t as = rank[span];

			if (end <= begin)
				continue;
			if (seen) {
				if ((uint64_t)as >= (uint64_t)ranks)
					return WRONG;
				as = seen[kind[edge] * ranks + as];
			}
			found_owner[rows] = write[edge];
			found_rank[rows] = as;
			found_begin[rows] = begin;
			found_end[rows] = end;
			found_of[rows++] = of[span];
		}
	}
	return rows;
}
