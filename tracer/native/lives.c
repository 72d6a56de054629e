/* SPDX-License-Identifier: Apache-2.0 */
/* Bios, by pointers that are used again: when each was complete, and what is of which.
 * ``_followed`` of stitch/lives.py says it one column after the other. */
#include "latest.h"
#include "native.h"

/* What ended with a completion, and whose: the last bio with its pointer that had begun by then,
 * -1: none had. ``back``: 1 if it was given back instead; null: none was. */
struct completions {
	struct events events;
	const int64_t *back;
	int64_t *bio;
};

struct lives {
	struct keys latest;
	struct events begun;
	const int64_t *device;
	struct completions of_request;
	struct completions alone;
	/* What was issued with whose pointer, on a device; ``issued_bio``: of each the bio that was
	 * not complete by then, -1: none. */
	struct events issued;
	const int64_t *issued_on;
	int64_t *issued_bio;
	/* Of each bio, the last completion before its pointer was used again, -1: none. */
	int64_t *end_ns;
};

/* Whether there is one by a time. */
static inline int is_by(const struct completions *of, int64_t place, int64_t time_ns)
{
	return place < of->events.count && of->events.time_ns[place] <= time_ns;
}

static inline void end(const struct lives *all, struct walk *walk, const struct completions *of,
		       int64_t place)
{
	int64_t time_ns = of->events.time_ns[place];
	int64_t bio = latest_by(walk, of->events.key[place], time_ns);

	of->bio[place] = bio;
	if (bio >= 0 && !(of->back && of->back[place]))
		all->end_ns[bio] = time_ns;
}

/* All completions by a time; ``next``: of either kind, the first that has not been. */
static inline void end_by(const struct lives *all, struct walk *walk, int64_t next[2],
			  int64_t time_ns)
{
	const struct completions *one = &all->of_request, *other = &all->alone;

	for (;;) {
		if (is_by(one, next[0], time_ns) &&
		    !(is_by(other, next[1], one->events.time_ns[next[0]])))
			end(all, walk, one, next[0]++);
		else if (is_by(other, next[1], time_ns))
			end(all, walk, other, next[1]++);
		else
			break;
	}
}

PUBLIC int64_t follow_bios(const struct lives *all)
{
	struct walk walk = walk_of(&all->latest, &all->begun);
	int64_t next[2] = { 0, 0 };

	for (int64_t row = 0; row < all->begun.count; row++)
		all->end_ns[row] = -1;
	for (int64_t i = 0; i < all->issued.count; i++) {
		int64_t time_ns = all->issued.time_ns[i], bio;

		end_by(all, &walk, next, time_ns);
		bio = latest_by(&walk, all->issued.key[i], time_ns);
		if (bio >= 0 && (all->end_ns[bio] >= 0 || all->device[bio] != all->issued_on[i]))
			bio = -1;
		all->issued_bio[i] = bio;
	}
	end_by(all, &walk, next, INT64_MAX);
	return 0;
}
