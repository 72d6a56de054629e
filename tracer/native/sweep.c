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

/* Spans, each of a piece, by whose edges they are told. */
struct spans {
	const int64_t *owner;
	const int32_t *rank;
	const int64_t *begin_ns;
	const int64_t *end_ns;
	int64_t count;
	const int64_t *piece_begin_ns;
	const int64_t *piece_end_ns;
	int64_t pieces;
	/* Of each rank from -1 on, its number among those that some span has, from 1 on; 0: none
	 * has it, as it is of all at first. */
	int32_t *number;
	int64_t ranks;
	/* Of each piece and one more, where its edges are, two a span; all 0 at first. */
	int64_t *first;
	int64_t *edges; /* Of each piece, how many it has; all 0 at first. */
};

/* By the numbers of levels; that of nobody is 0. */
struct holding {
	const uint8_t *kept; /* Whose stretches are written. */
	uint8_t *met;        /* Who has a span in its piece's time; 0 at first. */
	int32_t *working;    /* How many spans of each are at work: 0 before and after. */
	int64_t *last;       /* Where the last one of its piece is, if it has any; 0 at first. */
	uint64_t *time_ns;   /* What each has of a piece; 0 at first. */
	int64_t levels;
	uint64_t *edges; /* Room for four a span. */
	/* Rows, one a stretch: there is room for as many as there are edges. */
	int64_t *level;
	int64_t *owner;
	int64_t *since_ns;
	int64_t *until_ns;
	int64_t count;
};

/* What each level has, added up: of each its row, of each piece its column, -1: none. One of the two
 * tables is null. */
struct sums {
	const int64_t *row;
	const int64_t *column;
	uint32_t *narrow;
	uint64_t *wide;
	int64_t rows;
	int64_t columns;
};

/* Which levels are on; one bit of ``some`` for each word of ``on`` that is not 0. */
struct at_work {
	uint64_t some;
	uint64_t on[MOST_LEVELS / WORD];
};

/* The number of the highest that is on after one was switched. ``few``: they have one word. */
static inline int64_t switched(struct at_work *levels, int64_t level, bool few)
{
	uint64_t word, bit;
	int64_t at = 0;

	word = levels->on[few ? 0 : level / WORD] ^= (uint64_t)1 << level % WORD;
	if (!few) {
		bit = (uint64_t)1 << level / WORD;
		levels->some = word ? levels->some | bit : levels->some & ~bit;
		if (!levels->some)
			return 0;
		at = WORD - 1 - __builtin_clzll(levels->some);
		word = levels->on[at];
	}
	return word ? (at + 1) * WORD - __builtin_clzll(word) : 0;
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

/* A span that meets the last one of its piece and level is one with it: where many wait for the same
 * at once, most do. */
static inline void add(const struct spans *spans, int64_t piece, uint64_t level, uint64_t begins,
		       uint64_t ends, const struct holding *levels)
{
	int64_t first = spans->first[piece], next = first + spans->edges[piece];
	int64_t *last = levels->last + level;
	uint64_t *before = levels->edges + *last;

	if (*last < first || *last >= next || begins > before[1] || before[0] > ends) {
		*last = next;
		levels->edges[next] = begins;
		levels->edges[next + 1] = ends;
		levels->met[level + 1] = 1;
		spans->edges[piece] += 2;
		return;
	}
	before[0] = begins < before[0] ? begins : before[0];
	before[1] = ends > before[1] ? ends : before[1];
}

/* The edges of all pieces. */
static int64_t add_edges(const struct spans *spans, const struct holding *levels)
{
	for (int64_t i = 0; i < spans->count; i++) {
		int64_t piece = spans->owner[i];
		int64_t first_ns = spans->piece_begin_ns[piece];
		int64_t last_ns = spans->piece_end_ns[piece];
		int64_t begin_ns = spans->begin_ns[i] > first_ns ? spans->begin_ns[i] : first_ns;
		int64_t end_ns = spans->end_ns[i] < last_ns ? spans->end_ns[i] : last_ns;
		uint64_t level = spans->number[spans->rank[i] + 1] - 1;

		if (end_ns <= begin_ns)
			continue;
		if ((uint64_t)end_ns - (uint64_t)first_ns >= LATEST_NS)
			return TOO_MANY;
		add(spans, piece, level,
		    ((uint64_t)begin_ns - (uint64_t)first_ns) << TIME_SHIFT | level,
		    ((uint64_t)end_ns - (uint64_t)first_ns) << TIME_SHIFT | ENDS | level, levels);
	}
	return 0;
}

/* ``on``: none is before and after. */
static inline void hold(struct holding *levels, int64_t owner, int64_t begin_ns,
			const uint64_t *edges, int64_t count, struct at_work *on, bool few)
{
	int64_t since_ns = begin_ns, top = 0;

	for (const uint64_t *edge = edges; edge < edges + count; edge++) {
		int64_t level = *edge & (MOST_LEVELS - 1);
		int64_t time_ns = begin_ns + (int64_t)(*edge >> TIME_SHIFT);
		int32_t ends = (*edge & ENDS) != 0, before = levels->working[level];

		levels->working[level] = before + 1 - 2 * ends;
		if (before != ends)
			continue;
		levels->time_ns[top] += (uint64_t)(time_ns - since_ns);
		if (levels->kept[top] && time_ns > since_ns) {
			int64_t row = levels->count++;

			levels->level[row] = top - 1;
			levels->owner[row] = owner;
			levels->since_ns[row] = since_ns;
			levels->until_ns[row] = time_ns;
		}
		since_ns = time_ns;
		top = switched(on, level, few);
	}
}

/* Adds what each level has of a piece, and forgets it. False: it has no room. */
static inline bool add_up(const struct sums *sums, int64_t column, const struct holding *levels)
{
	uint64_t most = 0;

	for (int64_t level = 1; level <= levels->levels && column >= 0; level++) {
		int64_t at = sums->row[level - 1] * sums->columns + column;

		if (sums->wide) {
			sums->wide[at] += levels->time_ns[level];
			continue;
		}
		most |= sums->narrow[at] + levels->time_ns[level];
		sums->narrow[at] += (uint32_t)levels->time_ns[level];
	}
	for (int64_t level = 0; level <= levels->levels; level++)
		levels->time_ns[level] = 0;
	return most <= UINT32_MAX;
}

/* Returns how many levels there are. */
PUBLIC int64_t sweep_levels(const struct spans *spans)
{
	int32_t levels = 0;

	for (int64_t i = 0; i < spans->count; i++) {
		int64_t piece = spans->owner[i], place = (int64_t)spans->rank[i] + 1;

		if ((uint64_t)piece >= (uint64_t)spans->pieces ||
		    (uint64_t)place >= (uint64_t)spans->ranks)
			return WRONG;
		spans->number[place] = 1;
		spans->first[piece + 1] += 2;
	}
	for (int64_t place = 0; place < spans->ranks; place++)
		if (spans->number[place])
			spans->number[place] = ++levels;
	for (int64_t piece = 0; piece < spans->pieces; piece++)
		spans->first[piece + 1] += spans->first[piece];
	return levels > MOST_LEVELS ? TOO_MANY : levels;
}

/* Of spans whose levels were told. ``sums``: null, if nothing is added up. Returns how many stretches
 * are kept. */
PUBLIC int64_t sweep(const struct spans *spans, struct holding *levels, const struct sums *sums)
{
	struct at_work on = { 0 };

	for (int64_t level = 0; sums && level < levels->levels; level++)
		if ((uint64_t)sums->row[level] >= (uint64_t)sums->rows)
			return WRONG;
	if (add_edges(spans, levels))
		return TOO_MANY;
	for (int64_t piece = 0; piece < spans->pieces; piece++) {
		int64_t begin_ns = spans->piece_begin_ns[piece], count = spans->edges[piece];
		const uint64_t *edges = sort(levels->edges + spans->first[piece], count,
					     levels->edges + 2 * spans->count);

		if (sums && (sums->column[piece] < -1 || sums->column[piece] >= sums->columns))
			return WRONG;
		if (levels->levels <= WORD)
			hold(levels, piece, begin_ns, edges, count, &on, true);
		else
			hold(levels, piece, begin_ns, edges, count, &on, false);
		if (sums && !add_up(sums, sums->column[piece], levels))
			return TOO_MANY;
	}
	return levels->count;
}

/* What each of the ``wanted`` levels held of each piece, if anything, in order of level and piece
 * where the stretches are of piece and time; returns how many rows that is, as many as stretches at
 * most. ``first``: two more than levels, all 0; ``row_of``: one of each level, all 0;
 * ``unordered``: room for three of each stretch. */
PUBLIC int64_t attribute(const int64_t *level, const int64_t *owner, const int64_t *since_ns,
			 const int64_t *until_ns, int64_t count, const uint8_t *wanted,
			 int64_t levels, int64_t pieces, int64_t *first, int64_t *row_of,
			 int64_t *unordered, int64_t *held_level, int64_t *held_owner,
			 int64_t *time_ns)
{
	int64_t *of_level = unordered, *of_owner = of_level + count, *sum = of_owner + count;
	int64_t rows = 0;

	for (int64_t i = 0; i < count; i++) {
		int64_t row;

		if ((uint64_t)level[i] >= (uint64_t)levels ||
		    (uint64_t)owner[i] >= (uint64_t)pieces)
			return WRONG;
		if (!wanted[level[i]])
			continue;
		row = row_of[level[i]];
		if (row >= rows || of_level[row] != level[i] || of_owner[row] != owner[i]) {
			row = row_of[level[i]] = rows++;
			of_level[row] = level[i];
			of_owner[row] = owner[i];
			sum[row] = 0;
		}
		sum[row] += until_ns[i] - since_ns[i];
	}
	for (int64_t row = 0; row < rows; row++)
		first[of_level[row] + 2] += sum[row] != 0;
	for (int64_t one = 0; one < levels; one++)
		first[one + 2] += first[one + 1];
	for (int64_t row = 0; row < rows; row++) {
		int64_t at;

		if (!sum[row])
			continue;
		at = first[of_level[row] + 1]++;
		held_level[at] = of_level[row];
		held_owner[at] = of_owner[row];
		time_ns[at] = sum[row];
	}
	return first[levels];
}
