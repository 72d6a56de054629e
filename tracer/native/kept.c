/* SPDX-License-Identifier: Apache-2.0 */
/* Spans to those of them that are somebody's and not empty. ``SpanList.add`` says it. */
#include "native.h"

/* Spans of one rank, or each of its own; and what each is of. In words of 64 bits, as Python has
 * them. */
struct spans {
	int64_t count;
	const int64_t *owner;
	const int64_t *begin_ns;
	const int64_t *end_ns;
	const int16_t *rank; /* Null: all have ``one``. */
	int64_t one;
	const int64_t *of; /* Null: of nothing. */
	/* Room for as many. */
	int64_t *kept_owner;
	int64_t *kept_begin_ns;
	int64_t *kept_end_ns;
	int64_t *kept_of;
	int16_t *kept_rank;
};

/* Returns how many are kept. */
PUBLIC int64_t kept_spans(const struct spans *spans)
{
	int64_t kept = 0;

	for (int64_t i = 0; i < spans->count; i++) {
		int64_t owner = spans->owner[i];
		int64_t begin_ns = spans->begin_ns[i], end_ns = spans->end_ns[i];

		/* What is not kept, the next one is written over. */
		spans->kept_owner[kept] = owner;
		spans->kept_begin_ns[kept] = begin_ns;
		spans->kept_end_ns[kept] = end_ns;
		spans->kept_of[kept] = spans->of ? spans->of[i] : -1;
		spans->kept_rank[kept] = spans->rank ? spans->rank[i] : (int16_t)spans->one;
		kept += (owner >= 0) & (end_ns > begin_ns);
	}
	return kept;
}
