/* SPDX-License-Identifier: Apache-2.0 */
/* What bios did, as spans: ``_spans`` of stitch/blockio.py says it one column after the other. */
#include <stdbool.h>

#include "ascending.h"
#include "native.h"

/* In words of 64 bits, as Python has them. */
struct bios {
	int64_t count;
	const int64_t *owner;
	const int64_t *queue_ns;
	const int64_t *get_ns;
	const int64_t *insert_ns;
	const int64_t *got_ns;
	const int64_t *life_end_ns;
	const int64_t *request;
	const uint8_t *wants_flush;
	const uint8_t *lowered;
	const uint8_t *read;
	const uint8_t *meta;
	const uint8_t *discard;
	const uint8_t *journal;
	const uint8_t *stacked; /* On a device that passes its requests on; null: none is. */
	const int64_t *device;
};

struct requests {
	int64_t count;
	const int64_t *issue_ns;
	const int64_t *complete_ns;
};

/* Devices that have requests at all: they ascend. */
struct disks {
	int64_t count;
	const int64_t *device;
};

/* Rows of bios and requests. */
struct carried {
	int64_t count;
	const int64_t *bio;
	const int64_t *request;
};

struct awaited {
	int64_t count;
	const int64_t *bio;
	const int64_t *flush;
	const int64_t *begin_ns;
	const int64_t *end_ns;
};

/* Numbers of the stack's ranks. */
struct queues {
	int64_t q2g, q2i, q2d, g2i, g2d, i2d;
};

struct ranks {
	struct queues queue, lower;
	int64_t data, read, meta, journal, flush, stacked;
};

/* How many there are, of which as many are written as there is room for. */
struct spans {
	int64_t room;
	int64_t *owner;
	int16_t *rank;
	int64_t *begin_ns;
	int64_t *end_ns;
	int64_t *of;
	int64_t count;
};

struct all {
	struct bios bios;
	struct requests requests;
	struct disks disks;
	struct carried carried;
	struct awaited awaited;
	struct ranks rank;
	int64_t *last; /* Room for a row of each bio. */
	struct spans spans;
};

static inline bool leads(int64_t row, int64_t count)
{
	return (uint64_t)row < (uint64_t)count;
}

static inline void add(struct spans *spans, int64_t owner, int64_t rank, int64_t begin_ns,
		       int64_t end_ns, int64_t of)
{
	int64_t row = spans->count;

	if (owner < 0 || end_ns <= begin_ns)
		return;
	spans->count++;
	if (row >= spans->room)
		return;
	spans->owner[row] = owner;
	spans->rank[row] = (int16_t)rank;
	spans->begin_ns[row] = begin_ns;
	spans->end_ns[row] = end_ns;
	spans->of[row] = of;
}

/* Below a stacked device a queue is deeper than that device. */
static inline const struct queues *queues_of(const struct all *all, int64_t bio)
{
	return all->bios.lowered[bio] ? &all->rank.lower : &all->rank.queue;
}

static inline bool is_stacked(const struct all *all, int64_t bio)
{
	return all->bios.stacked && all->bios.stacked[bio];
}

/* Whose time in the queue it is; -1: where there are stacked devices, _between_flushes tells that of
 * what asks for a flush. */
static inline int64_t queued_for(const struct all *all, int64_t bio)
{
	return all->bios.stacked && all->bios.wants_flush[bio] ? -1 : all->bios.owner[bio];
}

static int64_t kind_of(const struct all *all, int64_t bio)
{
	if (is_stacked(all, bio))
		return all->rank.stacked;
	if (all->bios.journal[bio])
		return all->rank.journal;
	if (all->bios.meta[bio] || all->bios.discard[bio])
		return all->rank.meta;
	return all->bios.read[bio] ? all->rank.read : all->rank.data;
}

/* A bio merged into a request that was inserted before it waits only for the issue. */
static void queued(struct all *all, int64_t bio, int64_t request)
{
	int64_t get = all->bios.get_ns[bio], insert = all->bios.insert_ns[bio];
	const struct queues *queues = queues_of(all, bio);
	int64_t until = all->requests.issue_ns[request], rank = queues->q2d;

	if (get >= 0) {
		until = get;
		rank = queues->q2g;
	} else if (insert >= 0) {
		until = insert;
		rank = queues->q2i;
	}
	add(&all->spans, queued_for(all, bio), rank, all->bios.queue_ns[bio], until, request);
}

static void got(struct all *all, int64_t bio, int64_t request)
{
	int64_t get = all->bios.get_ns[bio], insert = all->bios.insert_ns[bio];

	if (get < 0)
		return;
	if (insert >= 0)
		add(&all->spans, queued_for(all, bio), queues_of(all, bio)->g2i, get, insert,
		    request);
	else
		add(&all->spans, queued_for(all, bio), queues_of(all, bio)->g2d, get,
		    all->requests.issue_ns[request], request);
}

static void inserted(struct all *all, int64_t bio, int64_t request)
{
	int64_t insert = all->bios.insert_ns[bio];

	if (insert >= 0)
		add(&all->spans, queued_for(all, bio), queues_of(all, bio)->i2d, insert,
		    all->requests.issue_ns[request], request);
}

static void device(struct all *all, int64_t bio, int64_t request)
{
	add(&all->spans, all->bios.owner[bio], kind_of(all, bio), all->requests.issue_ns[request],
	    all->requests.complete_ns[request], request);
}

static void each_carried(struct all *all, void (*one)(struct all *, int64_t, int64_t))
{
	for (int64_t i = 0; i < all->carried.count; i++)
		one(all, all->carried.bio[i], all->carried.request[i]);
}

/* Nothing but a limit of the queue, or none being free, keeps a bio from a request. */
static void asked(struct all *all)
{
	for (int64_t bio = 0; bio < all->bios.count; bio++) {
		if (all->bios.got_ns[bio] >= 0)
			add(&all->spans, queued_for(all, bio), queues_of(all, bio)->q2g,
			    all->bios.queue_ns[bio], all->bios.got_ns[bio], all->bios.request[bio]);
	}
}

/* What asks for a flush is queued until the last of those flushes was issued: data, too, before and
 * after it is written. */
static void flushes(struct all *all)
{
	const struct awaited *awaited = &all->awaited;

	for (int64_t bio = 0; bio < all->bios.count; bio++)
		all->last[bio] = -1;
	for (int64_t i = 0; i < awaited->count; i++) {
		int64_t bio = awaited->bio[i];

		if (all->bios.owner[bio] < 0)
			continue;
		add(&all->spans, all->bios.owner[bio],
		    is_stacked(all, bio) ? all->rank.stacked : all->rank.flush,
		    awaited->begin_ns[i], awaited->end_ns[i], awaited->flush[i]);
		all->last[bio] = awaited->flush[i];
	}
	for (int64_t bio = 0; bio < all->bios.count; bio++) {
		int64_t last = all->last[bio];

		if (all->bios.wants_flush[bio])
			add(&all->spans, queued_for(all, bio), queues_of(all, bio)->q2d,
			    all->bios.queue_ns[bio], last < 0 ? -1 : all->requests.issue_ns[last],
			    last);
	}
}

static bool has_requests(const struct disks *disks, int64_t device)
{
	int64_t place = first_from(disks->device, 0, disks->count, 0, device);

	return place < disks->count && disks->device[place] == device;
}

/* A disk that has no requests at all (device mapper, memory): from queue to completion. */
static void bare(struct all *all)
{
	for (int64_t bio = 0; bio < all->bios.count; bio++) {
		if (all->bios.request[bio] < 0 && all->bios.life_end_ns[bio] >= 0 &&
		    !has_requests(&all->disks, all->bios.device[bio]))
			add(&all->spans, all->bios.owner[bio], kind_of(all, bio),
			    all->bios.queue_ns[bio], all->bios.life_end_ns[bio], -1);
	}
}

static bool lead(const struct all *all, const int64_t *bio, const int64_t *request, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		if (!leads(bio[i], all->bios.count) || !leads(request[i], all->requests.count))
			return false;
	}
	return true;
}

PUBLIC int64_t spans_of_bios(struct all *all)
{
	if (!lead(all, all->carried.bio, all->carried.request, all->carried.count) ||
	    !lead(all, all->awaited.bio, all->awaited.flush, all->awaited.count))
		return WRONG;
	all->spans.count = 0;
	each_carried(all, queued);
	each_carried(all, got);
	each_carried(all, inserted);
	asked(all);
	each_carried(all, device);
	flushes(all);
	bare(all);
	return all->spans.count;
}
