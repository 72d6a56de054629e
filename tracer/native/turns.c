/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for places that one has at a time, and whose turn it was meanwhile. Where many wait at once,
 * what is told of each is the same for nearly all of them: it is told once for those alike. */
#include "ascending.h"
#include "keys.h"
#include "native.h"

/* By place, and in order of time; those of one place do not overlap. */
struct turns {
	const int64_t *place;
	const int64_t *begin_ns;
	const int64_t *end_ns;
	int64_t count;
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

/* Whether they are as it says above. */
static int one_at_a_time(const struct turns *turns)
{
	for (int64_t i = 0; i < turns->count; i++) {
		if (turns->end_ns[i] < turns->begin_ns[i])
			return 0;
		if (!i)
			continue;
		if (turns->place[i] < turns->place[i - 1])
			return 0;
		if (turns->place[i] == turns->place[i - 1] &&
		    turns->begin_ns[i] < turns->end_ns[i - 1])
			return 0;
	}
	return 1;
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

/* What meets the last one of its kind, and of those alike, is one with it: of thousands, few are
 * left to be put in order. ``last``: by whose. */
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
};

_Static_assert(sizeof(struct asking) == 22 * sizeof(int64_t), "words");

/* What of each wait is told: all, or ``most`` turns at each end (0: all). Those alike are those of
 * the same ``whose``, if that is not below 0. Returns how many there are. */
PUBLIC int64_t waits_told(struct asking *all)
{
	const struct turns *turns = &all->turns;
	struct range own = { 0, 0 };
	int64_t first = 0, most = all->most;

	if (!one_at_a_time(turns))
		return TOO_MANY;
	empty(&all->heads);
	empty(&all->tails);
	for (int64_t i = 0; i < all->count; i++) {
		int64_t begin_ns = all->begin_ns[i], end_ns = all->end_ns[i], last;

		if (!i || all->waits.place[i] != all->waits.place[i - 1])
			own = of_place(turns, all->waits.place[i]);
		if (end_ns <= begin_ns)
			continue;
		first = first_above(turns->end_ns, own.first, own.last, first, begin_ns);
		if (first == own.last || turns->begin_ns[first] >= end_ns)
			continue;
		if (!most || (own.last - first - 1) / 2 < most ||
		    turns->begin_ns[first + 2 * most] >= end_ns) {
			add(&all->told, &all->heads, &all->waits, i, begin_ns, end_ns);
			continue;
		}
		last = first_from(turns->begin_ns, first, own.last, first + 2 * most, end_ns);
		add(&all->told, &all->heads, &all->waits, i, begin_ns,
		    turns->end_ns[first + most - 1]);
		add(&all->told, &all->tails, &all->waits, i, turns->begin_ns[last - most], end_ns);
	}
	return all->told.count;
}

/* Parts of waits: of which, from when to when, and whose turn. */
struct parts {
	int64_t *row;
	int64_t *begin_ns;
	int64_t *end_ns;
	int64_t *turn;
	int64_t count;
	int64_t room;
};

static void tell(struct parts *parts, const struct turns *turns, int64_t row, int64_t place,
		 int64_t begin_ns, int64_t end_ns)
{
	struct range own = of_place(turns, place);
	int64_t turn = first_above(turns->end_ns, own.first, own.last, own.first, begin_ns);

	for (; turn < own.last && turns->begin_ns[turn] < end_ns; turn++, parts->count++) {
		int64_t since = turns->begin_ns[turn], until = turns->end_ns[turn];

		if (parts->count >= parts->room)
			continue;
		parts->row[parts->count] = row;
		parts->begin_ns[parts->count] = since > begin_ns ? since : begin_ns;
		parts->end_ns[parts->count] = until < end_ns ? until : end_ns;
		parts->turn[parts->count] = turn;
	}
}

/* What is told of waits as parts: those of the same ``place`` and ``whose``, if that is not below 0,
 * together. ``order``: by whose, place and begin. Returns how many there are, of which as many are
 * written as there is ``room``. */
PUBLIC int64_t turns_told(const int64_t *order, const int64_t *row, const int64_t *since_ns,
			  const int64_t *until_ns, int64_t told, const int64_t *whose,
			  const int64_t *place, int64_t count, const int64_t *turn_place,
			  const int64_t *turn_begin_ns, const int64_t *turn_end_ns,
			  int64_t turn_count, int64_t *of_row, int64_t *begin_ns, int64_t *end_ns,
			  int64_t *turn, int64_t room)
{
	const struct turns turns = { turn_place, turn_begin_ns, turn_end_ns, turn_count };
	struct parts parts = { of_row, begin_ns, end_ns, turn, 0, room };
	int64_t i = 0;

	for (int64_t at = 0; at < told; at++)
		if ((uint64_t)order[at] >= (uint64_t)told ||
		    (uint64_t)row[order[at]] >= (uint64_t)count)
			return WRONG;
	while (i < told) {
		int64_t one = order[i], wait = row[one], until = until_ns[one];

		for (i++; i < told && whose[wait] >= 0; i++) {
			int64_t next = order[i];

			if (whose[row[next]] != whose[wait] || place[row[next]] != place[wait] ||
			    since_ns[next] > until)
				break;
			until = until_ns[next] > until ? until_ns[next] : until;
		}
		tell(&parts, &turns, wait, place[wait], since_ns[one], until);
	}
	return parts.count;
}
