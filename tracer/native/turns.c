/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for places that one has at a time, and whose turn it was meanwhile. Where many wait at once,
 * what is told of each is the same for nearly all of them: it is told once for those alike. */
#include <stdbool.h>

#include "ascending.h"
#include "keys.h"
#include "native.h"

/* By place and begin. ``reach_ns``: until when any of the place's is that begins no later. */
struct turns {
	const int64_t *place;
	const int64_t *begin_ns;
	const int64_t *end_ns;
	int64_t count;
	int64_t *reach_ns;
};

struct range {
	int64_t first;
	int64_t last;
};

static struct range of_place(const struct turns *turns, int64_t place)
{
	int64_t first = first_from(turns->place, 0, turns->count, 0, place);

	return (struct range){ first,
			       first_above(turns->place, first, turns->count, first, place) };
}

/* Whether they are in order. */
static bool reach(const struct turns *turns)
{
	for (int64_t i = 0; i < turns->count; i++) {
		bool same = i && turns->place[i] == turns->place[i - 1];

		if (i && (turns->place[i] < turns->place[i - 1] ||
			  (same && turns->begin_ns[i] < turns->begin_ns[i - 1])))
			return false;
		turns->reach_ns[i] = same && turns->reach_ns[i - 1] > turns->end_ns[i]
					     ? turns->reach_ns[i - 1]
					     : turns->end_ns[i];
	}
	return true;
}

/* Whether those of a place before one are over when it begins. */
static bool apart(const struct turns *turns, int64_t at)
{
	return turns->reach_ns[at - 1] <= turns->begin_ns[at];
}

/* When waits (rows) have something told of them. */
struct told {
	int64_t *row;
	int64_t *since_ns;
	int64_t *until_ns;
	int64_t count;
};

struct waits {
	const int64_t *whose;
	const int64_t *place;
};

/* What meets the last one of its kind, and of those alike, is one with it. ``last``: by whose. */
static void add(struct told *told, const struct keys *last, const struct waits *waits, int64_t row,
		int64_t since_ns, int64_t until_ns)
{
	int64_t whose = waits->whose[row], before;
	uint64_t place = 0;

	if (whose >= 0) {
		place = place_of(last, whose);
		before = last->number[place];
		if (before >= 0 && waits->place[told->row[before]] == waits->place[row] &&
		    since_ns <= told->until_ns[before] && told->since_ns[before] <= until_ns) {
			if (since_ns < told->since_ns[before])
				told->since_ns[before] = since_ns;
			if (until_ns > told->until_ns[before])
				told->until_ns[before] = until_ns;
			return;
		}
		last->key[place] = whose;
		last->number[place] = (int32_t)told->count;
	}
	told->row[told->count] = row;
	told->since_ns[told->count] = since_ns;
	told->until_ns[told->count++] = until_ns;
}

/* Parts of waits: of which, from when to when, and whose turn. */
struct parts {
	int64_t *row;
	int64_t *begin_ns;
	int64_t *end_ns;
	int64_t *turn;
	int64_t room;
	int64_t count;
};

/* In words of 64 bits, as Python has them. */
struct asking {
	struct keys heads; /* And of what is told whole. */
	struct keys tails;
	int64_t count;
	struct waits waits;
	const int64_t *begin_ns;
	const int64_t *end_ns;
	struct turns turns;
	int64_t most;
	/* Room for two of each wait. */
	struct told told;
	struct parts parts;
};

_Static_assert(sizeof(struct asking) == 29 * sizeof(int64_t), "words");

/* What of each wait is told: all, or ``most`` turns at each end (0: all), if no other one of the
 * place meets those. Returns whether it was so. */
static bool choose(struct asking *all)
{
	const struct turns *turns = &all->turns;
	struct range own = { 0, 0 };
	int64_t first = 0, most = all->most;

	for (int64_t i = 0; i < all->count; i++) {
		int64_t begin_ns = all->begin_ns[i], end_ns = all->end_ns[i], last;

		if (!i || all->waits.place[i] != all->waits.place[i - 1])
			own = of_place(turns, all->waits.place[i]);
		if (end_ns <= begin_ns)
			continue;
		first = first_above(turns->reach_ns, own.first, own.last, first, begin_ns);
		if (first == own.last || turns->begin_ns[first] >= end_ns)
			continue;
		if (most <= 0 || (own.last - first - 1) / 2 < most ||
		    turns->begin_ns[first + 2 * most] >= end_ns) {
			add(&all->told, &all->heads, &all->waits, i, begin_ns, end_ns);
			continue;
		}
		last = first_from(turns->begin_ns, first, own.last, first + 2 * most, end_ns);
		if (!apart(turns, first + most) || !apart(turns, last - most))
			return false;
		add(&all->told, &all->heads, &all->waits, i, begin_ns,
		    turns->reach_ns[first + most - 1]);
		add(&all->told, &all->tails, &all->waits, i, turns->begin_ns[last - most], end_ns);
	}
	return true;
}

static void tell(struct parts *parts, const struct turns *turns, int64_t row, struct range own,
		 int64_t begin_ns, int64_t end_ns)
{
	int64_t turn = first_above(turns->reach_ns, own.first, own.last, own.first, begin_ns);

	for (; turn < own.last && turns->begin_ns[turn] < end_ns; turn++) {
		int64_t since = turns->begin_ns[turn], until = turns->end_ns[turn];

		if (until <= begin_ns)
			continue;
		if (parts->count < parts->room) {
			parts->row[parts->count] = row;
			parts->begin_ns[parts->count] = since > begin_ns ? since : begin_ns;
			parts->end_ns[parts->count] = until < end_ns ? until : end_ns;
			parts->turn[parts->count] = turn;
		}
		parts->count++;
	}
}

/* What is told of waits, in parts: of those alike, with the same ``whose`` that is not below 0, once
 * where they meet. Returns how many there are, of which as many are written as there is room. */
PUBLIC int64_t turns_told(struct asking *all)
{
	struct range own = { 0, 0 };

	if (!reach(&all->turns))
		return TOO_MANY;
	empty(&all->heads);
	empty(&all->tails);
	if (!choose(all))
		return TOO_MANY;
	for (int64_t i = 0; i < all->told.count; i++) {
		int64_t row = all->told.row[i], place = all->waits.place[row];

		if (!i || place != all->waits.place[all->told.row[i - 1]])
			own = of_place(&all->turns, place);
		tell(&all->parts, &all->turns, row, own, all->told.since_ns[i],
		     all->told.until_ns[i]);
	}
	return all->parts.count;
}
