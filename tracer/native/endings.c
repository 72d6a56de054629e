/* SPDX-License-Identifier: Apache-2.0 */
/* What ended with each completion of a request: ``_of_requests`` of stitch/endings.py says it one
 * column after the other. */
#include <stdbool.h>

#include "latest.h"
#include "native.h"

/* In words of 64 bits, as Python has them. */
struct requests {
	int64_t count;
	const int64_t *completion; /* -1: none. */
	const int64_t *complete_ns;
};

struct bios {
	int64_t count;
	const uint8_t *wants_flush;
	const int64_t *device;
	const int64_t *request; /* What carried its data, -1: nothing. */
	const int64_t *root;
};

/* Rows of both of the above. */
struct carried {
	int64_t count;
	const int64_t *bio;
	const int64_t *request;
};

/* ``bio``: the last one with its pointer, -1: none; ``itself``: above 0: the thread did so. */
struct completions {
	int64_t count;
	const int64_t *tid;
	const int64_t *cpu;
	const int64_t *time_ns;
	const int64_t *bio;
	const int64_t *itself;
};

/* What is found; ``request``: as many as completions, ``carrier``: as requests. */
struct ended {
	int64_t *tid;
	int64_t *cpu;
	int64_t *time_ns;
	int64_t *since_ns;
	int64_t *bio;
	int64_t *request;
	int64_t *itself;
};

struct all {
	struct keys latest;
	struct events flushes; /* By device, in order of their completion. */
	int64_t soon_ns;
	struct requests requests;
	struct bios bios;
	struct carried carried;
	struct completions completions;
	int64_t *request_of;
	int64_t *bio_of;
	struct ended ended;
};

static inline bool leads(int64_t row, int64_t count)
{
	return (uint64_t)row < (uint64_t)count;
}

/* Of each completion the request, and of each request the first bio that it carried. */
static int64_t tie(const struct all *all)
{
	for (int64_t i = 0; i < all->completions.count; i++)
		all->request_of[i] = -1;
	for (int64_t row = 0; row < all->requests.count; row++) {
		int64_t completion = all->requests.completion[row];

		all->bio_of[row] = -1;
		if (completion < 0)
			continue;
		if (!leads(completion, all->completions.count))
			return WRONG;
		all->request_of[completion] = row;
	}
	for (int64_t i = all->carried.count - 1; i >= 0; i--) {
		int64_t request = all->carried.request[i];

		if (!leads(request, all->requests.count))
			return WRONG;
		all->bio_of[request] = all->carried.bio[i];
	}
	return 0;
}

/* A bio that asked for a flush ends behind the block layer's own request for that. */
static int64_t since_of(const struct all *all, struct walk *walk, int64_t bio, int64_t time_ns)
{
	int64_t request = all->bios.request[bio], data_ns = -1, flush, done_ns;

	if (!all->bios.wants_flush[bio])
		return time_ns;
	if (leads(request, all->requests.count))
		data_ns = all->requests.complete_ns[request];
	if (data_ns >= time_ns)
		return time_ns;
	flush = latest_by(walk, all->bios.device[bio], time_ns);
	done_ns = flush < 0 ? -1 : all->flushes.time_ns[flush];
	return done_ns > data_ns && time_ns - done_ns <= all->soon_ns ? done_ns : time_ns;
}

PUBLIC int64_t end_requests(const struct all *all)
{
	struct walk walk = walk_of(&all->latest, &all->flushes);
	const struct ended *ended = &all->ended;
	int64_t count = 0;

	if (tie(all))
		return WRONG;
	for (int64_t i = 0; i < all->completions.count; i++) {
		int64_t time_ns = all->completions.time_ns[i], request = all->request_of[i];
		int64_t bio = request < 0 ? -1 : all->bio_of[request];

		if (bio < 0)
			bio = all->completions.bio[i];
		if (bio < 0)
			continue;
		if (!leads(bio, all->bios.count))
			return WRONG;
		ended->tid[count] = all->completions.tid[i];
		ended->cpu[count] = all->completions.cpu[i];
		ended->time_ns[count] = time_ns;
		ended->since_ns[count] = since_of(all, &walk, bio, time_ns);
		ended->bio[count] = all->bios.root[bio];
		ended->request[count] = request;
		ended->itself[count] = all->completions.itself[i];
		count++;
	}
	return count;
}
