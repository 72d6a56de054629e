/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of pieces to who held which stretch of them: at each instant the highest level at work. */
#include <stdbool.h>

#include "native.h"

enum {
	WORD = 64,
	LEVEL_BITS = 12,
	MOST_LEVELS = 1 << LEVEL_BITS,
	FEW = 16
};

/* When a span begins or ends, from its piece's begin on, and its level, in one number: what begins
 * is before what ends at the same time, so that what touches is one. */
#define ENDS ((uint64_t)1 << LEVEL_BITS)
#define TIME_SHIFT (LEVEL_BITS + 1)
#define LATEST_NS ((uint64_t)1 << (63 - TIME_SHIFT))

/* Which levels are on; one bit of ``some`` for each word of ``on`` that is not 0. */
struct at_work {
	uint64_t some;
	uint64_t on[MOST_LEVELS / WORD];
};

static inline void flip(struct at_work *levels, int64_t level)
{
	uint64_t word = levels->on[level / WORD] ^= (uint64_t)1 << level % WORD;
	uint64_t bit = (uint64_t)1 << level / WORD;

	levels->some = word ? levels->some | bit : levels->some & ~bit;
}

static inline int64_t highest(const struct at_work *levels)
{
	int64_t word;

	if (!levels->some)
		return -1;
	word = WORD - 1 - __builtin_clzll(levels->some);
	return word * WORD + WORD - 1 - __builtin_clzll(levels->on[word]);
}

static void insert(uint64_t *edges, int64_t count)
{
	for (int64_t i = 1; i < count; i++) {
		uint64_t edge = edges[i];
		int64_t at = i;

		for (; at && edge < edges[at - 1]; at--)
			edges[at] = edges[at - 1];
		edges[at] = edge;
	}
}

/* Two runs of ``edges``, the second from ``middle`` on, as one. */
static void merge_runs(const uint64_t *edges, int64_t middle, int64_t count, uint64_t *merged)
{
	int64_t one = 0, other = middle;

	for (int64_t at = 0; at < count; at++) {
		if (one < middle && (other == count || edges[one] <= edges[other]))
			merged[at] = edges[one++];
		else
			merged[at] = edges[other++];
	}
}

/* Most pieces have few. ``room``: for as many. Returns which of the two they are in. */
static uint64_t *sort(uint64_t *edges, int64_t count, uint64_t *room)
{
	for (int64_t i = 0; i < count; i += FEW)
		insert(edges + i, count - i < FEW ? count - i : FEW);
	for (int64_t run = FEW; run < count; run *= 2) {
		uint64_t *merged = room;

		for (int64_t i = 0; i < count; i += 2 * run) {
			int64_t left = count - i;

			merge_runs(edges + i, left < run ? left : run,
				   left < 2 * run ? left : 2 * run, merged + i);
		}
		room = edges;
		edges = merged;
	}
	return edges;
}

/* Who held what, one row a stretch: there is room for as many as there are edges. */
struct held {
	int64_t *level;
	int64_t *owner;
	int64_t *since_ns;
	int64_t *until_ns;
	int64_t count;
};

/* ``levels``: none is on before and after; ``working``: how many spans of each are at work, all 0
 * before and after. A stretch is written wherever it may be one, and counted if it is: what branches
 * here, nothing foretells. */
static void hold(struct held *held, int64_t owner, int64_t begin_ns, const uint64_t *edges,
		 int64_t count, struct at_work *levels, int32_t *working)
{
	int64_t since_ns = 0, top = -1;

	for (const uint64_t *edge = edges; edge < edges + count; edge++) {
		int64_t level = *edge & (MOST_LEVELS - 1);
		int64_t time_ns = begin_ns + (int64_t)(*edge >> TIME_SHIFT);
		int32_t ends = (*edge & ENDS) != 0, before = working[level];

		working[level] = before + 1 - 2 * ends;
		if (before != ends)
			continue;
		held->level[held->count] = top;
		held->owner[held->count] = owner;
		held->since_ns[held->count] = since_ns;
		held->until_ns[held->count] = time_ns;
		held->count += (top >= 0) & (time_ns > since_ns);
		since_ns = time_ns;
		flip(levels, level);
		top = highest(levels);
	}
}

struct clipped {
	int64_t begin_ns;
	int64_t end_ns;
};

static inline struct clipped clip(int64_t begin_ns, int64_t end_ns, int64_t first_ns,
				  int64_t last_ns)
{
	return (struct clipped){ begin_ns > first_ns ? begin_ns : first_ns,
				 end_ns < last_ns ? end_ns : last_ns };
}

/* Where a piece's edges are, two of a span. */
struct edges {
	uint64_t *all;
	const int64_t *first;
	int64_t *counts;
};

/* A span that meets the last one of its piece and level is one with it: where many wait for the same
 * at once, most do. ``last``: where that one is, if it is of this piece. */
static void add(const struct edges *edges, int64_t piece, int64_t *last, uint64_t begins,
		uint64_t ends)
{
	int64_t first = edges->first[piece], next = first + edges->counts[piece];
	uint64_t *before = edges->all + *last;

	if (*last < first || *last >= next || begins > before[1] || before[0] > ends) {
		*last = next;
		edges->all[next] = begins;
		edges->all[next + 1] = ends;
		edges->counts[piece] += 2;
		return;
	}
	if (begins < before[0])
		before[0] = begins;
	if (ends > before[1])
		before[1] = ends;
}

/* Returns how many stretches there are. ``level``: of each rank from -1 on, 0 at first; then its
 * number among those that some span has, from 1 on. ``working``: one of each rank;
 * ``first``, ``counts``: of each piece, ``first``: one more; all 0 at first. ``last``: one of each
 * rank, -1 at first. ``room``: four a span, for its edges. */
PUBLIC int64_t sweep(const int64_t *owner, const int32_t *rank, const int64_t *begin_ns,
		     const int64_t *end_ns, int64_t count, const int64_t *piece_begin_ns,
		     const int64_t *piece_end_ns, int64_t pieces, int32_t *level, int32_t *working,
		     int64_t ranks, int64_t *last, int64_t *first, int64_t *counts, uint64_t *room,
		     int64_t *held_level, int64_t *held_owner, int64_t *since_ns, int64_t *until_ns)
{
	struct held held = { held_level, held_owner, since_ns, until_ns, 0 };
	const struct edges edges = { room, first, counts };
	struct at_work at_work = { 0 };
	int32_t levels = 0;

	for (int64_t i = 0; i < count; i++) {
		int64_t piece = owner[i], place = (int64_t)rank[i] + 1;
		struct clipped own;

		if ((uint64_t)piece >= (uint64_t)pieces || (uint64_t)place >= (uint64_t)ranks)
			return WRONG;
		own = clip(begin_ns[i], end_ns[i], piece_begin_ns[piece], piece_end_ns[piece]);
		if (own.end_ns <= own.begin_ns)
			continue;
		if ((uint64_t)own.end_ns - (uint64_t)piece_begin_ns[piece] >= LATEST_NS)
			return TOO_MANY;
		level[place] = 1;
		first[piece + 1] += 2;
	}
	for (int64_t place = 0; place < ranks; place++)
		if (level[place])
			level[place] = ++levels;
	if (levels > MOST_LEVELS)
		return TOO_MANY;
	for (int64_t piece = 0; piece < pieces; piece++)
		first[piece + 1] += first[piece];
	for (int64_t i = 0; i < count; i++) {
		int64_t piece = owner[i];
		struct clipped own =
			clip(begin_ns[i], end_ns[i], piece_begin_ns[piece], piece_end_ns[piece]);
		uint64_t at;

		if (own.end_ns <= own.begin_ns)
			continue;
		at = level[rank[i] + 1] - 1;
		own.begin_ns -= piece_begin_ns[piece];
		own.end_ns -= piece_begin_ns[piece];
		add(&edges, piece, last + at, (uint64_t)own.begin_ns << TIME_SHIFT | at,
		    (uint64_t)own.end_ns << TIME_SHIFT | ENDS | at);
	}
	for (int64_t piece = 0; piece < pieces; piece++)
		hold(&held, piece, piece_begin_ns[piece],
		     sort(room + first[piece], counts[piece], room + 2 * count), counts[piece],
		     &at_work, working);
	return held.count;
}

/* What each level held of each piece, in order of level and piece where the stretches are of piece
 * and time; returns how many rows that is, as many as stretches at most. ``first``: two more than
 * levels, all 0; ``row_of``: one of each level, all 0; ``unordered``: room for three of each
 * stretch. */
PUBLIC int64_t attribute(const int64_t *level, const int64_t *owner, const int64_t *since_ns,
			 const int64_t *until_ns, int64_t count, int64_t levels, int64_t pieces,
			 int64_t *first, int64_t *row_of, int64_t *unordered, int64_t *held_level,
			 int64_t *held_owner, int64_t *time_ns)
{
	int64_t *of_level = unordered, *of_owner = of_level + count, *sum = of_owner + count;
	int64_t rows = 0;

	for (int64_t i = 0; i < count; i++) {
		int64_t row;

		if ((uint64_t)level[i] >= (uint64_t)levels ||
		    (uint64_t)owner[i] >= (uint64_t)pieces)
			return WRONG;
		row = row_of[level[i]];
		if (row >= rows || of_level[row] != level[i] || of_owner[row] != owner[i]) {
			row = row_of[level[i]] = rows++;
			of_level[row] = level[i];
			of_owner[row] = owner[i];
			sum[row] = 0;
			first[level[i] + 2]++;
		}
		sum[row] += until_ns[i] - since_ns[i];
	}
	for (int64_t one = 0; one < levels; one++)
		first[one + 2] += first[one + 1];
	for (int64_t row = 0; row < rows; row++) {
		int64_t at = first[of_level[row] + 1]++;

		held_level[at] = of_level[row];
		held_owner[at] = of_owner[row];
		time_ns[at] = sum[row];
	}
	return rows;
}

/* To the sums of each place (of a level) and write (of a piece, -1: of none), what they had. */
PUBLIC int64_t add_up(const int64_t *level, const int64_t *owner, const int64_t *since_ns,
		      const int64_t *until_ns, int64_t count, const int64_t *place, int64_t levels,
		      const int64_t *write, int64_t pieces, int64_t *sums, int64_t places,
		      int64_t writes)
{
	for (int64_t one = 0; one < levels; one++)
		if ((uint64_t)place[one] >= (uint64_t)places)
			return WRONG;
	for (int64_t piece = 0; piece < pieces; piece++)
		if (write[piece] < -1 || write[piece] >= writes)
			return WRONG;
	for (int64_t i = 0; i < count; i++) {
		if ((uint64_t)level[i] >= (uint64_t)levels ||
		    (uint64_t)owner[i] >= (uint64_t)pieces)
			return WRONG;
		if (write[owner[i]] >= 0)
			sums[place[level[i]] * writes + write[owner[i]]] +=
				until_ns[i] - since_ns[i];
	}
	return 0;
}
