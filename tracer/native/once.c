/* SPDX-License-Identifier: Apache-2.0 */
/* Spans, each once: which are not the same as one before. */
#include <stdbool.h>

#include "native.h"

enum {
	HALF = 32,
	WORD = 64
};

struct spans {
	const int64_t *owner;
	const int16_t *rank;
	const int64_t *begin_ns;
	const int64_t *end_ns;
	const int64_t *of;
};

static inline uint64_t mixed(uint64_t hash, int64_t value)
{
	hash = (hash ^ (uint64_t)value) * 0x9E3779B97F4A7C15u;
	return hash ^ hash >> HALF;
}

static inline bool same(const struct spans *spans, int64_t one, int64_t other)
{
	return spans->owner[one] == spans->owner[other] && spans->rank[one] == spans->rank[other] &&
	       spans->begin_ns[one] == spans->begin_ns[other] &&
	       spans->end_ns[one] == spans->end_ns[other] && spans->of[one] == spans->of[other];
}

/* ``rows``: of those that are not, in order; returns how many. ``places``: 1 << bits, more than
 * there are spans. ``seed``: nobody can make a recording whose spans all meet. */
PUBLIC int64_t once(const int64_t *owner, const int16_t *rank, const int64_t *begin_ns,
		    const int64_t *end_ns, const int64_t *of, int64_t count, int32_t *places,
		    int64_t bits, uint64_t seed, int64_t *rows)
{
	const struct spans spans = { owner, rank, begin_ns, end_ns, of };
	uint64_t last = ((uint64_t)1 << bits) - 1;
	int64_t found = 0;

	for (uint64_t place = 0; place <= last; place++)
		places[place] = -1;
	for (int64_t row = 0; row < count; row++) {
		uint64_t hash = mixed(mixed(seed, owner[row]), of[row]), place;

		hash = mixed(mixed(hash, begin_ns[row]), end_ns[row]);
		place = mixed(hash, rank[row]) * (seed | 1) >> (WORD - bits);
		while (places[place] >= 0 && !same(&spans, places[place], row))
			place = (place + 1) & last;
		if (places[place] >= 0)
			continue;
		places[place] = (int32_t)row;
		rows[found++] = row;
	}
	return found;
}
