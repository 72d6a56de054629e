/* SPDX-License-Identifier: Apache-2.0 */
/* What ended, by whose it was: ``Wakers._own`` of stitch/wakers.py says it one column after the
 * other. */
#include <stdbool.h>

#include "native.h"

/* In words of 64 bits, as Python has them. Of all endings; ``by_time``: rows of those of bios. */
struct endings {
	int64_t count;
	const int64_t *bio;
	const int64_t *request;
	const int64_t *by_time;
	int64_t of_bios;
};

/* All bios whose data each request carried. */
struct carried {
	int64_t count;
	const int64_t *bio;
	const int64_t *request;
};

/* Of each bio, as many as it can have; -1: none. */
struct owners {
	int64_t parts;
	const int64_t *const *owner;
	int64_t bios;
	int64_t count;
};

struct all {
	struct endings endings;
	struct carried carried;
	struct owners owners;
	/* Room: of each request, of each ending, and of each that was carried. */
	int64_t requests;
	int64_t *of_request;
	int64_t *carries;
	int64_t *next;
	/* Where each owner's begin (two more than owners, 0 at first); in order of time. */
	int64_t *first;
	int64_t *ending;
};

static inline bool leads(int64_t row, int64_t count)
{
	return (uint64_t)row < (uint64_t)count;
}

/* Of each ending, the first that its request carried, and of each of these the next one. */
static int64_t tie(const struct all *all)
{
	for (int64_t request = 0; request < all->requests; request++)
		all->of_request[request] = -1;
	for (int64_t row = 0; row < all->endings.count; row++) {
		int64_t request = all->endings.request[row];

		all->carries[row] = -1;
		if (request >= all->requests)
			return WRONG;
		if (request >= 0)
			all->of_request[request] = row;
	}
	for (int64_t i = all->carried.count - 1; i >= 0; i--) {
		int64_t row;

		if (!leads(all->carried.request[i], all->requests) ||
		    !leads(all->carried.bio[i], all->owners.bios))
			return WRONG;
		row = all->of_request[all->carried.request[i]];
		if (row < 0)
			continue;
		all->next[i] = all->carries[row];
		all->carries[row] = i;
	}
	return 0;
}

/* ``counts``: how many each owner has, at first; else which. */
static inline void give(const struct all *all, int64_t bio, int64_t row, bool counts)
{
	for (int64_t part = 0; part < all->owners.parts; part++) {
		int64_t owner = all->owners.owner[part][bio];

		if (owner < 0)
			continue;
		if (counts)
			all->first[owner + 2]++;
		else
			all->ending[all->first[owner + 1]++] = row;
	}
}

/* To whom each of the bios that it is of belongs: mostly the one that it names is all. */
static inline void give_all(const struct all *all, bool counts)
{
	for (int64_t place = 0; place < all->endings.of_bios; place++) {
		int64_t row = all->endings.by_time[place], own = all->endings.bio[row];
		bool named = false;

		for (int64_t i = all->carries[row]; i >= 0; i = all->next[i]) {
			named |= all->carried.bio[i] == own;
			give(all, all->carried.bio[i], row, counts);
		}
		if (!named)
			give(all, own, row, counts);
	}
}

PUBLIC int64_t own_endings(const struct all *all)
{
	for (int64_t part = 0; part < all->owners.parts; part++)
		for (int64_t bio = 0; bio < all->owners.bios; bio++)
			if (all->owners.owner[part][bio] >= all->owners.count)
				return WRONG;
	for (int64_t place = 0; place < all->endings.of_bios; place++)
		if (!leads(all->endings.by_time[place], all->endings.count) ||
		    !leads(all->endings.bio[all->endings.by_time[place]], all->owners.bios))
			return WRONG;
	if (tie(all))
		return WRONG;
	give_all(all, true);
	for (int64_t owner = 0; owner < all->owners.count; owner++)
		all->first[owner + 2] += all->first[owner + 1];
	give_all(all, false);
	return 0;
}
