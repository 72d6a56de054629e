/* SPDX-License-Identifier: Apache-2.0 */
/* Which bios wait for which flushes: ``_awaited`` of stitch/blockio.py says it one column after the
 * other. */
#include <stdbool.h>

#include "ascending.h"
#include "native.h"

/* In words of 64 bits, as Python has them. */
struct bios {
	int64_t count;
	const int64_t *device;
	const int64_t *queue_ns;
	const int64_t *life_end_ns;
	const uint8_t *wants_flush;
};

/* In order of their issue. */
struct requests {
	int64_t count;
	const uint8_t *flush;
	const int64_t *device;
	const int64_t *issue_ns;
	const int64_t *complete_ns;
};

/* The flushes of a disk. */
struct flushes {
	int64_t count;
	int64_t *request;
	int64_t *begin_ns;
	int64_t *reach_ns; /* Until when any so far ran. */
};

/* How many there are, of which as many are written as there is room for. */
struct awaited {
	int64_t room;
	int64_t *bio;
	int64_t *flush;
	int64_t *begin_ns;
	int64_t *end_ns;
	int64_t count;
};

struct all {
	struct bios bios;
	struct requests requests;
	int64_t row_count;
	const int64_t *row; /* Of the bios that it is asked of. */
	int64_t disk_count;
	const int64_t *disk;
	int64_t most; /* Of how many flushes at each end of a bio. */
	struct flushes flushes;
	struct awaited awaited;
};

/* Whether they were issued in their order. */
static bool list(struct all *all, int64_t disk)
{
	const struct requests *requests = &all->requests;
	struct flushes *flushes = &all->flushes;
	int64_t last_ns = INT64_MIN, reach_ns = INT64_MIN;

	flushes->count = 0;
	for (int64_t row = 0; row < requests->count; row++) {
		int64_t place = flushes->count;

		if (!requests->flush[row] || requests->device[row] != disk)
			continue;
		if (requests->issue_ns[row] < last_ns)
			return false;
		last_ns = requests->issue_ns[row];
		if (requests->complete_ns[row] > reach_ns)
			reach_ns = requests->complete_ns[row];
		flushes->request[place] = row;
		flushes->begin_ns[place] = last_ns;
		flushes->reach_ns[place] = reach_ns;
		flushes->count++;
	}
	return true;
}

static void add(struct all *all, int64_t bio, int64_t flush)
{
	struct awaited *awaited = &all->awaited;
	int64_t begin_ns = all->requests.issue_ns[flush], end_ns = all->requests.complete_ns[flush];
	int64_t place = awaited->count;

	if (end_ns <= all->bios.queue_ns[bio])
		return;
	awaited->count++;
	if (place >= awaited->room)
		return;
	if (begin_ns < all->bios.queue_ns[bio])
		begin_ns = all->bios.queue_ns[bio];
	if (end_ns > all->bios.life_end_ns[bio])
		end_ns = all->bios.life_end_ns[bio];
	awaited->bio[place] = bio;
	awaited->flush[place] = flush;
	awaited->begin_ns[place] = begin_ns;
	awaited->end_ns[place] = end_ns;
}

/* Returns where the flushes begin that may run while it lives, most likely ``near``. */
static int64_t wait(struct all *all, int64_t bio, int64_t near)
{
	const struct flushes *flushes = &all->flushes;
	int64_t first =
		first_above(flushes->reach_ns, 0, flushes->count, near, all->bios.queue_ns[bio]);
	int64_t last =
		first_from(flushes->begin_ns, 0, flushes->count, first, all->bios.life_end_ns[bio]);

	for (int64_t at = first; at < last; at++) {
		if (at == first + all->most && last - at > all->most)
			at = last - all->most;
		add(all, bio, flushes->request[at]);
	}
	return first;
}

PUBLIC int64_t await_flushes(struct all *all)
{
	all->awaited.count = 0;
	for (int64_t i = 0; i < all->row_count; i++) {
		if ((uint64_t)all->row[i] >= (uint64_t)all->bios.count)
			return WRONG;
	}
	for (int64_t disk = 0; disk < all->disk_count; disk++) {
		int64_t near = 0;

		if (!list(all, all->disk[disk]))
			return TOO_MANY;
		for (int64_t i = 0; i < all->row_count; i++) {
			int64_t bio = all->row[i];

			if (all->bios.wants_flush[bio] && all->bios.life_end_ns[bio] >= 0 &&
			    all->bios.device[bio] == all->disk[disk])
				near = wait(all, bio, near);
		}
	}
	return all->awaited.count;
}
