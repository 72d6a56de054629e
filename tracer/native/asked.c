/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of which it is told who is behind them: of which kind a machine's own are, and which those
 * that were lifted are of. */
#include <stdbool.h>

#include "native.h"

/* In words of 64 bits, as Python has them. */
struct lifted {
	int64_t count;
	const int64_t *owner;
	const int32_t *rank;
	const int64_t *begin_ns;
	const int64_t *end_ns;
	const int64_t *of;
	/* The machine's own, the first of which has that number. */
	int64_t first;
	int64_t own_count;
	const int16_t *own_rank;
	const int64_t *own_begin_ns;
	const int64_t *own_end_ns;
	/* 0: nothing is told of it; null: it is of all. */
	const uint8_t *kind;
	/* Of each rank of a machine, which its own span has. */
	int64_t ranks;
	const int16_t *of_rank;
	/* So many ranks are lifted; 0: nothing is alike. */
	int64_t lifted_ranks;
	/* Room for as many as are lifted: rows, numbers among the own, and those alike. */
	int64_t *row;
	int64_t *number;
	int64_t *whose;
};

_Static_assert(sizeof(struct lifted) == 18 * sizeof(int64_t), "words");

/* Returns how many there are. Those of one owner and rank are alike (the same number, not below 0)
 * if they are as the machine has them. */
PUBLIC int64_t asked(const struct lifted *all)
{
	int64_t found = 0;

	for (int64_t i = 0; i < all->count; i++) {
		int64_t own = all->of[i] - all->first, rank = all->rank[i];
		bool as_is;

		if (all->of[i] < 0 || own < 0 || own >= all->own_count)
			continue;
		if (all->kind && !all->kind[own])
			continue;
		if (rank < 0 || all->owner[i] < 0)
			return WRONG;
		/* What leads to another machine is told by the span that waits for it, and is
		 * another rank. */
		if (all->of_rank[rank % all->ranks] != all->own_rank[own])
			continue;
		as_is = rank < all->lifted_ranks && all->begin_ns[i] == all->own_begin_ns[own] &&
			all->end_ns[i] == all->own_end_ns[own];
		all->row[found] = i;
		all->number[found] = own;
		all->whose[found++] =
			as_is ? (int64_t)((uint64_t)all->owner[i] * (uint64_t)all->lifted_ranks +
					  (uint64_t)rank)
			      : -1;
	}
	return found;
}

/* Of each span its kind: that of its rank (0: none, and 0 is of none), if what it is ``of`` is from
 * the kind's first number on, before its last one. ``counts``: of each kind, all 0 at first. */
PUBLIC int64_t kinds_of(const int16_t *rank, const int64_t *of, int64_t count,
			const uint8_t *of_rank, int64_t ranks, const int64_t *first,
			const int64_t *last, int64_t kinds, uint8_t *kind, int64_t *counts)
{
	for (int64_t i = 0; i < count; i++) {
		int64_t own;

		if ((uint64_t)rank[i] >= (uint64_t)ranks)
			return WRONG;
		own = of_rank[rank[i]];
		if (own >= kinds)
			return WRONG;
		if (of[i] < first[own] || of[i] >= last[own])
			own = 0;
		kind[i] = (uint8_t)own;
		counts[own]++;
	}
	return 0;
}
