/* SPDX-License-Identifier: Apache-2.0 */
/* Which sync each write goes with, where each sync is of all, of a file system or of a file: what
 * stitch/durability.py tells, by walking all of them in order of time once back and once forth. */
#include <stdbool.h>

#include "column.h"
#include "keys.h"
#include "native.h"

enum {
	ALL,
	FILE_SYSTEM,
	SCOPES = 3,
	AGENT_SHIFT = 32
};

/* Calls and requests: plain writes, syncs, and others. In words of 64 bits, as Python has them. */
struct made {
	const int64_t *effect_ns; /* Of a write, its end; of a sync, its begin. */
	const int64_t *end_ns;
	struct column agent;
	struct column device_key;
	struct column file;
	struct column offset_bytes; /* Not asked for. */
	struct column size_bytes;
	const int8_t *scope;
	int64_t count;
};

/* Some of these by their rows. NULL: the rows' own order is that by time, of which ``by_end`` is
 * of syncs alone. */
struct some {
	const int64_t *row;
	const int64_t *by_effect;
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

static inline int64_t nth(const int64_t *order, int64_t place)
{
	return order ? order[place] : place;
}

static bool all_within(const struct some *some, int64_t count)
{
	for (int64_t i = 0; i < some->count; i++)
		if (!within(some->row[i], count))
			return false;
	return true;
}

static inline int64_t key_of(const struct made *made, int64_t row, int64_t scope)
{
	return key_in(scope, in_row(&made->device_key, row), in_row(&made->file, row));
}

/* Of several that end at once, the first. */
static inline bool ends_before(const struct made *made, const int64_t *row, int64_t one,
			       int64_t other)
{
	if (made->end_ns[row[one]] != made->end_ns[row[other]])
		return made->end_ns[row[one]] < made->end_ns[row[other]];
	return one < other;
}

static void begin(const struct made *made, const int64_t *row, int64_t sync,
		  const struct latest *latest)
{
	int64_t scope = made->scope[row[sync]];
	int64_t key = key_of(made, row[sync], scope);
	const struct keys *any = &latest->any[scope];
	uint64_t place = place_of(any, key);

	any->key[place] = key;
	if (any->number[place] < 0 || ends_before(made, row, sync, any->number[place]))
		any->number[place] = (int32_t)sync;
	put(&latest->own[scope], with_agent(in_row(&made->agent, row[sync]), key), sync);
}

/* By the syncs that begin no earlier than the write ended. */
static void settle(const struct made *made, int64_t row, int64_t write, const int64_t *syncs,
		   const struct latest *latest, const struct goes *goes)
{
	int64_t first = -1, own = -1, sync;
	int64_t agent = in_row(&made->agent, row);

	for (int64_t scope = 0; scope < SCOPES; scope++) {
		int64_t key = key_of(made, row, scope);

		if (!latest->there[scope])
			continue;
		sync = row_of(&latest->any[scope], key);
		if (sync >= 0 &&
		    (first < 0 || made->end_ns[syncs[sync]] < made->end_ns[syncs[first]]))
			first = sync;
		if (agent < 0)
			continue;
		sync = row_of(&latest->own[scope], with_agent(agent, key));
		if (sync >= 0 &&
		    (own < 0 || made->effect_ns[syncs[sync]] < made->effect_ns[syncs[own]]))
			own = sync;
	}
	/* Durable already, when its own thread asked for it: then that asked for something else. */
	if (own >= 0 && made->end_ns[syncs[first]] <= made->effect_ns[syncs[own]])
		own = -1;
	sync = own >= 0 ? own : first;
	goes->caller[write] = own;
	if (sync < 0)
		return;
	goes->size_bytes[sync] = (int64_t)((uint64_t)goes->size_bytes[sync] +
					   (uint64_t)in_row(&made->size_bytes, row));
	goes->count[sync]++;
}

static void empty_all(const struct latest *latest)
{
	for (int scope = 0; scope < SCOPES; scope++) {
		empty(&latest->any[scope]);
		empty(&latest->own[scope]);
	}
}

static int64_t back(const struct made *made, const struct some *writes, const struct some *syncs,
		    const struct latest *latest, const struct goes *goes)
{
	int64_t left = syncs->count;

	empty_all(latest);
	for (int64_t i = writes->count - 1; i >= 0; i--) {
		int64_t write = nth(writes->by_effect, i), row;

		if (!within(write, writes->count))
			return WRONG;
		row = writes->row[write];
		for (; left; left--) {
			int64_t sync = nth(syncs->by_effect, left - 1);

			if (!within(sync, syncs->count))
				return WRONG;
			if (made->effect_ns[syncs->row[sync]] < made->effect_ns[row])
				break;
			begin(made, syncs->row, sync, latest);
		}
		settle(made, row, write, syncs->row, latest, goes);
	}
	return 0;
}

/* When the last one of all that is in a sync's scope began that had ended before it. */
static int64_t forth(const struct made *made, const struct some *syncs, const struct latest *latest,
		     const struct goes *goes)
{
	int64_t ended = 0;

	empty_all(latest);
	for (int64_t i = 0; i < syncs->count; i++) {
		int64_t sync = nth(syncs->by_effect, i), row;

		if (!within(sync, syncs->count))
			return WRONG;
		row = syncs->row[sync];
		for (; ended < syncs->count; ended++) {
			int64_t other = nth(syncs->by_end, ended), scope;

			if (!within(other, syncs->count))
				return WRONG;
			if (made->end_ns[syncs->row[other]] > made->effect_ns[row])
				break;
			scope = made->scope[syncs->row[other]];
			put(&latest->any[scope], key_of(made, syncs->row[other], scope), other);
		}
		for (int64_t scope = 0; scope <= made->scope[row]; scope++) {
			int64_t before, begin_ns;

			if (!latest->there[scope])
				continue;
			before = row_of(&latest->any[scope], key_of(made, row, scope));
			begin_ns = before < 0 ? 0 : made->effect_ns[syncs->row[before]];
			if (begin_ns > goes->since_ns[sync])
				goes->since_ns[sync] = begin_ns;
		}
	}
	return 0;
}

PUBLIC int64_t durable(const struct made *made, const struct some *writes, const struct some *syncs,
		       const struct latest *latest, const struct goes *goes)
{
	int64_t counts[SCOPES] = { 0 };

	if (!all_within(writes, made->count) || !all_within(syncs, made->count))
		return WRONG;
	for (int64_t sync = 0; sync < syncs->count; sync++) {
		int64_t scope = made->scope[syncs->row[sync]];

		if (!within(scope, SCOPES))
			return WRONG;
		counts[scope]++;
	}
	for (int scope = 0; scope < SCOPES; scope++)
		if (counts[scope] != latest->there[scope])
			return WRONG;
	if (back(made, writes, syncs, latest, goes))
		return WRONG;
	return forth(made, syncs, latest, goes);
}
