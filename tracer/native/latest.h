/* SPDX-License-Identifier: Apache-2.0 */
/* Events of one kind that are walked in order of time: of each key, the latest that has been. */
#ifndef LATEST_H
#define LATEST_H

#include "keys.h"

/* In words of 64 bits, as Python has them. The times ascend. */
struct events {
	int64_t count;
	const int64_t *key;
	const int64_t *time_ns;
};

struct walk {
	const struct keys *latest;
	const struct events *events;
	int64_t next;
};

static inline struct walk walk_of(const struct keys *latest, const struct events *events)
{
	empty(latest);
	return (struct walk){ latest, events, 0 };
}

/* The key's latest by a time, which is none before that of the last call; -1: there is none. */
static inline int64_t latest_by(struct walk *walk, int64_t key, int64_t time_ns)
{
	const struct events *events = walk->events;

	for (; walk->next < events->count && events->time_ns[walk->next] <= time_ns; walk->next++) {
		uint64_t place = place_of(walk->latest, events->key[walk->next]);

		walk->latest->key[place] = events->key[walk->next];
		walk->latest->number[place] = (int32_t)walk->next;
	}
	return walk->latest->number[place_of(walk->latest, key)];
}

#endif
