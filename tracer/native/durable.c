/* SPDX-License-Identifier: Apache-2.0 */
/* Which sync each write goes with, where each sync is of all, of a file system or of a file: what
 * stitch/durability.py tells, by walking all of them in order of time once back and once forth. */
#include <stdbool.h>

#include "keys.h"
#include "native.h"

enum {
	ALL,
	FILE_SYSTEM,
	SCOPES = 3,
	AGENT_SHIFT = 32
};

/* Everything below is in words of 64 bits, as Python has it. ``order``: the rows by ``end_ns``. */
struct written {
	const int64_t *end_ns;
	const int64_t *agent;
	const int64_t *device_key;
	const int64_t *file;
	const int64_t *low;
	const int64_t *high;
	const int64_t *order;
	int64_t count;
};

/* ``by_begin``, ``by_end``: the rows by these, stable. */
struct synced {
	const int64_t *begin_ns;
	const int64_t *end_ns;
	const int64_t *agent;
	const int64_t *scope;
	const int64_t *device_key;
	const int64_t *file;
	const int64_t *by_begin;
	const int64_t *by_end;
	int64_t count;
};

/* Rows of syncs by what they are of, and by whose they are, too; of each scope that there is. */
struct latest {
	int64_t there[SCOPES];
	struct keys any[SCOPES];
	struct keys own[SCOPES];
};

/* One of each write, then one of each sync; the latter are 0 at first. */
struct goes {
	int64_t *caller;
	int64_t *by;
	int64_t *size_bytes;
	int64_t *count;
	int64_t *since_ns;
};

static inline int64_t key_in(int64_t scope, int64_t device_key, int64_t file)
{
	if (scope == ALL)
		return 0;
	return scope == FILE_SYSTEM ? device_key : file;
}

static inline int64_t with_agent(int64_t agent, int64_t key)
{
	return (int64_t)(((uint64_t)agent << AGENT_SHIFT) + (uint64_t)key);
}

static inline int64_t row_of(const struct keys *keys, int64_t key)
{
	return keys->number[place_of(keys, key)];
}

static inline void put(const struct keys *keys, int64_t key, int64_t row)
{
	uint64_t place = place_of(keys, key);

	keys->key[place] = key;
	keys->number[place] = (int32_t)row;
}

static inline bool within(int64_t row, int64_t count)
{
	return (uint64_t)row < (uint64_t)count;
}

/* Of several that end at once, the first. */
static inline bool ends_before(const struct synced *synced, int64_t one, int64_t other)
{
	if (synced->end_ns[one] != synced->end_ns[other])
		return synced->end_ns[one] < synced->end_ns[other];
	return one < other;
}

static void begin(const struct synced *synced, int64_t sync, const struct latest *latest)
{
	int64_t scope = synced->scope[sync];
	int64_t key = key_in(scope, synced->device_key[sync], synced->file[sync]);
	const struct keys *any = &latest->any[scope];
	uint64_t place = place_of(any, key);

	any->key[place] = key;
	if (any->number[place] < 0 || ends_before(synced, sync, any->number[place]))
		any->number[place] = (int32_t)sync;
	put(&latest->own[scope], with_agent(synced->agent[sync], key), sync);
}

/* By the syncs that begin no earlier than the write ended. */
static void settle(const struct written *written, int64_t write, const struct synced *synced,
		   const struct latest *latest, const struct goes *goes)
{
	int64_t first = -1, own = -1, sync;
	int64_t agent = written->agent[write], low = written->low[write];

	for (int64_t scope = 0; scope < SCOPES; scope++) {
		int64_t key = key_in(scope, written->device_key[write], written->file[write]);

		if (!latest->there[scope])
			continue;
		sync = row_of(&latest->any[scope], key);
		if (sync >= 0 && (first < 0 || synced->end_ns[sync] < synced->end_ns[first]))
			first = sync;
		if (agent < 0)
			continue;
		sync = row_of(&latest->own[scope], with_agent(agent, key));
		if (sync >= 0 && (own < 0 || synced->begin_ns[sync] < synced->begin_ns[own]))
			own = sync;
	}
	/* Durable already, when its own thread asked for it: then that asked for something else. */
	if (own >= 0 && synced->end_ns[first] <= synced->begin_ns[own])
		own = -1;
	sync = own >= 0 ? own : first;
	goes->caller[write] = own;
	goes->by[write] = sync;
	if (sync < 0)
		return;
	goes->size_bytes[sync] =
		(int64_t)((uint64_t)goes->size_bytes[sync] + (uint64_t)written->high[write] -
			  (uint64_t)(low > 0 ? low : 0));
	goes->count[sync]++;
}

static void empty_all(const struct latest *latest)
{
	for (int scope = 0; scope < SCOPES; scope++) {
		empty(&latest->any[scope]);
		empty(&latest->own[scope]);
	}
}

static int64_t back(const struct written *written, const struct synced *synced,
		    const struct latest *latest, const struct goes *goes)
{
	int64_t left = synced->count;

	empty_all(latest);
	for (int64_t i = written->count - 1; i >= 0; i--) {
		int64_t write = written->order ? written->order[i] : i;

		if (!within(write, written->count))
			return WRONG;
		for (; left; left--) {
			int64_t sync = synced->by_begin ? synced->by_begin[left - 1] : left - 1;

			if (!within(sync, synced->count))
				return WRONG;
			if (synced->begin_ns[sync] < written->end_ns[write])
				break;
			begin(synced, sync, latest);
		}
		settle(written, write, synced, latest, goes);
	}
	return 0;
}

/* When the last one of all that is in a sync's scope began that had ended before it. */
static int64_t forth(const struct synced *synced, const struct latest *latest,
		     const struct goes *goes)
{
	int64_t ended = 0;

	empty_all(latest);
	for (int64_t i = 0; i < synced->count; i++) {
		int64_t sync = synced->by_begin ? synced->by_begin[i] : i, before;

		if (!within(sync, synced->count))
			return WRONG;
		for (; ended < synced->count; ended++) {
			int64_t other = synced->by_end ? synced->by_end[ended] : ended;
			int64_t scope;

			if (!within(other, synced->count))
				return WRONG;
			if (synced->end_ns[other] > synced->begin_ns[sync])
				break;
			scope = synced->scope[other];
			put(&latest->any[scope],
			    key_in(scope, synced->device_key[other], synced->file[other]), other);
		}
		for (int64_t scope = 0; scope <= synced->scope[sync]; scope++) {
			if (!latest->there[scope])
				continue;
			before = row_of(&latest->any[scope], key_in(scope, synced->device_key[sync],
								    synced->file[sync]));
			if (before >= 0 && synced->begin_ns[before] > goes->since_ns[sync])
				goes->since_ns[sync] = synced->begin_ns[before];
		}
	}
	return 0;
}

PUBLIC int64_t durable(const struct written *written, const struct synced *synced,
		       const struct latest *latest, const struct goes *goes)
{
	int64_t counts[SCOPES] = { 0 };

	for (int64_t sync = 0; sync < synced->count; sync++) {
		if (!within(synced->scope[sync], SCOPES))
			return WRONG;
		counts[synced->scope[sync]]++;
	}
	for (int scope = 0; scope < SCOPES; scope++)
		if (counts[scope] != latest->there[scope])
			return WRONG;
	if (back(written, synced, latest, goes))
		return WRONG;
	return forth(synced, latest, goes);
}
