/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of disks, by pointers that are used again at once: which completion each ended with.
 * ``_paired`` of stitch/requests.py says what is whose. */
#include "latest.h"
#include "native.h"

/* Columns of what was issued, of what was complete, and of what the driver gave back. */
struct pairing {
	struct keys latest;
	struct events issued;
	const int64_t *size;
	struct events done;
	const int64_t *done_size;
	const int64_t *done_bio;
	struct events back;
	/* Of each request, the completion, -1: there is none; when it was over, -1: never; and
	 * whether that is when it was given back, or lost its bios. */
	int64_t *completion;
	int64_t *complete_ns;
	int64_t *returned;
};

/* The last completion with data of one with data, or empty of an empty one. */
static void complete(const struct pairing *all)
{
	struct walk walk = walk_of(&all->latest, &all->issued);

	for (int64_t i = 0; i < all->done.count; i++) {
		int64_t row = latest_by(&walk, all->done.key[i], all->done.time_ns[i]);

		if (row < 0)
			continue;
		if ((all->size[row] > 0) == (all->done_size[i] > 0))
			all->completion[row] = i;
		else if (!all->done_size[i] && !all->done_bio[i])
			all->complete_ns[row] = all->done.time_ns[i];
	}
}

/* When it was first given back. */
static void give_back(const struct pairing *all)
{
	struct walk walk = walk_of(&all->latest, &all->issued);

	for (int64_t i = 0; i < all->back.count; i++) {
		int64_t row = latest_by(&walk, all->back.key[i], all->back.time_ns[i]);

		if (row < 0 || all->completion[row] >= 0 || all->returned[row])
			continue;
		all->complete_ns[row] = all->back.time_ns[i];
		all->returned[row] = 1;
	}
}

PUBLIC int64_t pair_requests(const struct pairing *all)
{
	for (int64_t row = 0; row < all->issued.count; row++) {
		all->completion[row] = all->complete_ns[row] = -1;
		all->returned[row] = 0;
	}
	complete(all);
	if (all->back.count)
		give_back(all);
	for (int64_t row = 0; row < all->issued.count; row++) {
		int64_t completion = all->completion[row];

		if (completion >= 0)
			all->complete_ns[row] = all->done.time_ns[completion];
		else if (all->complete_ns[row] >= 0)
			all->returned[row] = 1;
	}
	return 0;
}
