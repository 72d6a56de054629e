/* SPDX-License-Identifier: Apache-2.0 */
/* Bios by the requests that carried their data: ``_settled`` of stitch/bios.py says it one column
 * after the other. */
#include "native.h"

/* In words of 64 bits, as Python has them. */
struct bios {
	int64_t count;
	const int64_t *end_ns;   /* By their own pointers, -1: none was seen. */
	const int64_t *until_ns; /* Else by what else is told. */
};

struct requests {
	int64_t count;
	const int64_t *issue_ns;
	const int64_t *complete_ns;
};

/* Rows of both of the above: what was issued, whose bio is -1 if it is not known. */
struct pairs {
	int64_t count;
	const int64_t *bio;
	const int64_t *request;
};

struct all {
	struct bios bios;
	struct requests requests;
	struct pairs issued;
	int64_t most; /* Bios of a request that are told. */
	/* Room: one more than there are bios, and one of each request. */
	int64_t *place;
	int64_t *told;
	/* Those whose bios are known, in order of bio and request. */
	int64_t *bio;
	int64_t *request;
	/* Of each bio: its first request, -1: none; when that was issued; when all was complete. */
	int64_t *first;
	int64_t *issue_ns;
	int64_t *life_end_ns;
};

/* How many each bio has, and where they begin. */
static int64_t count(const struct all *all)
{
	for (int64_t bio = 0; bio <= all->bios.count; bio++)
		all->place[bio] = 0;
	for (int64_t row = 0; row < all->requests.count; row++)
		all->told[row] = 0;
	for (int64_t i = 0; i < all->issued.count; i++) {
		int64_t bio = all->issued.bio[i], request = all->issued.request[i];

		if (bio < 0)
			continue;
		if (bio >= all->bios.count || (uint64_t)request >= (uint64_t)all->requests.count)
			return WRONG;
		all->place[bio + 1]++;
		if (++all->told[request] > all->most)
			return TOO_MANY;
	}
	for (int64_t bio = 0; bio < all->bios.count; bio++)
		all->place[bio + 1] += all->place[bio];
	return 0;
}

/* Mostly each bio's are in order. */
static int64_t order(const struct all *all)
{
	for (int64_t bio = 0; bio < all->bios.count; bio++)
		all->first[bio] = -1;
	for (int64_t i = 0; i < all->issued.count; i++) {
		int64_t bio = all->issued.bio[i], request = all->issued.request[i], place;

		if (bio < 0)
			continue;
		place = all->place[bio]++;
		if (all->first[bio] < 0)
			all->first[bio] = request;
		else if (all->request[place - 1] > request)
			return TOO_MANY;
		all->bio[place] = bio;
		all->request[place] = request;
	}
	return all->bios.count ? all->place[all->bios.count - 1] : 0;
}

/* Returns how many pairs there are. */
PUBLIC int64_t carry_bios(const struct all *all)
{
	int64_t pairs = count(all);

	if (pairs < 0)
		return pairs;
	pairs = order(all);
	for (int64_t bio = 0; pairs >= 0 && bio < all->bios.count; bio++) {
		int64_t first = all->first[bio], end_ns = all->bios.end_ns[bio];

		all->issue_ns[bio] = first < 0 ? -1 : all->requests.issue_ns[first];
		all->life_end_ns[bio] = end_ns < 0 ? all->bios.until_ns[bio] : end_ns;
	}
	for (int64_t i = 0; i < pairs; i++) {
		int64_t complete_ns = all->requests.complete_ns[all->request[i]];

		if (complete_ns > all->life_end_ns[all->bio[i]])
			all->life_end_ns[all->bio[i]] = complete_ns;
	}
	return pairs;
}
