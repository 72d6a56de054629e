/* SPDX-License-Identifier: Apache-2.0 */
/* Calls and requests to synchronous writes and their pieces (stitch/account.py), once it is known
 * which sync each plain write goes with. */
#include <stdbool.h>

#include "column.h"
#include "native.h"

enum {
	NONE = -1 /* Of methods: it is plain; of scopes: it is a write. */
};

/* A column that is copied as it is. */
struct copied {
	const int64_t *from;
	int64_t *to;
};

/* Each thread's calls come in order of time. */
struct done {
	struct column begin_ns;
	struct column end_ns;
	struct column size_bytes;
	const int8_t *method;
	const int8_t *scope;
	const bool *failed;
	int64_t count;
};

/* Of each plain write that wrote anything, the sync of its thread that it goes with, -1: none does;
 * of each sync that did not fail, what is counted with it, and since when. */
struct synced {
	const int64_t *caller;
	int64_t plain_count;
	const int64_t *size_bytes;
	const int64_t *writes;
	const int64_t *since_ns;
	int64_t *unit; /* Room for the number of each one's unit. */
	int64_t count;
};

/* Of what is copied, the first columns are of each one's own row, the others of its first piece. */
struct units {
	struct filled size_bytes;
	struct filled writes;
	struct filled pieces;
	struct filled method;
	struct filled since_ns;
	int64_t *latency_ns;
	bool *failed;
	bool *begun;   /* Room for whether each one's first piece was met. */
	int64_t *next; /* Room for where each one's next piece comes. */
	const struct copied *own;
	int64_t own_count;
	const struct copied *first;
	int64_t first_count;
	int64_t count;
};

struct pieces {
	int64_t *unit;
	const struct copied *copied;
	int64_t copied_count;
	int64_t count;
};

static inline void copy(const struct copied *copied, int64_t count, int64_t row, int64_t at)
{
	for (int64_t i = 0; i < count; i++)
		copied[i].to[at] = copied[i].from[row];
}

static inline bool is_plain(const struct done *done, int64_t row)
{
	return done->method[row] == NONE && !done->failed[row] &&
	       in_row(&done->size_bytes, row) > 0;
}

static inline bool is_sync(const struct done *done, int64_t row)
{
	return done->scope[row] != NONE && !done->failed[row];
}

/* Each unit has one piece by itself; its pieces are none yet. */
static int64_t number_units(const struct done *done, const struct synced *synced,
			    const struct units *units)
{
	int64_t unit = 0, sync = 0, plain = 0;

	for (int64_t row = 0; row < done->count; row++) {
		plain += is_plain(done, row);
		if (done->method[row] == NONE)
			continue;
		if (unit == units->count)
			return WRONG;
		units->next[unit] = 1;
		units->latency_ns[unit] = 0;
		units->begun[unit] = false;
		if (is_sync(done, row)) {
			if (sync == synced->count)
				return WRONG;
			synced->unit[sync++] = unit;
		}
		unit++;
	}
	if (unit != units->count || sync != synced->count || plain != synced->plain_count)
		return WRONG;
	return 0;
}

/* Where the pieces of each unit come. */
static int64_t make_room(const struct synced *synced, struct units *units, int64_t piece_count)
{
	int64_t before = 0;

	for (int64_t plain = 0; plain < synced->plain_count; plain++) {
		int64_t sync = synced->caller[plain];

		if (sync >= synced->count)
			return WRONG;
		if (sync >= 0)
			units->next[synced->unit[sync]]++;
	}
	for (int64_t unit = 0; unit < units->count; unit++) {
		int64_t own = units->next[unit];

		fill(&units->pieces, unit, own);
		units->next[unit] = before;
		before += own;
	}
	return before == piece_count ? 0 : WRONG;
}

static inline void add_unit(const struct done *done, int64_t row, const struct synced *synced,
			    int64_t sync, struct units *units, int64_t unit)
{
	bool writes = done->scope[row] == NONE, failed = done->failed[row];

	fill(&units->method, unit, done->method[row]);
	units->failed[unit] = failed;
	copy(units->own, units->own_count, row, unit);
	if (writes || failed) {
		fill(&units->size_bytes, unit, failed ? 0 : in_row(&done->size_bytes, row));
		fill(&units->writes, unit, writes);
		fill(&units->since_ns, unit, in_row(&done->begin_ns, row));
	} else {
		fill(&units->size_bytes, unit, synced->size_bytes[sync]);
		fill(&units->writes, unit, synced->writes[sync]);
		fill(&units->since_ns, unit, synced->since_ns[sync]);
	}
}

static inline void add_piece(const struct done *done, int64_t row, const struct units *units,
			     int64_t unit, const struct pieces *pieces)
{
	int64_t at = units->next[unit]++;
	uint64_t took_ns = (uint64_t)in_row(&done->end_ns, row);

	took_ns -= (uint64_t)in_row(&done->begin_ns, row);
	units->latency_ns[unit] = (int64_t)((uint64_t)units->latency_ns[unit] + took_ns);
	if (!units->begun[unit])
		copy(units->first, units->first_count, row, unit);
	units->begun[unit] = true;
	pieces->unit[at] = unit;
	copy(pieces->copied, pieces->copied_count, row, at);
}

PUBLIC int64_t account(const struct done *done, const struct synced *synced, struct units *units,
		       const struct pieces *pieces)
{
	int64_t unit = 0, sync = 0, plain = 0;

	if (number_units(done, synced, units) || make_room(synced, units, pieces->count))
		return WRONG;
	for (int64_t row = 0; row < done->count; row++) {
		if (done->method[row] != NONE) {
			add_unit(done, row, synced, sync, units, unit);
			add_piece(done, row, units, unit++, pieces);
			sync += is_sync(done, row);
		} else if (is_plain(done, row)) {
			int64_t own = synced->caller[plain++];

			if (own >= 0)
				add_piece(done, row, units, synced->unit[own], pieces);
		}
	}
	return 0;
}
