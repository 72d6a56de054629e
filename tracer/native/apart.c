/* SPDX-License-Identifier: Apache-2.0 */
/* Whether no two sleeps of a thread overlap (trace/sleeps.py tells which do). */
#include "keys.h"
#include "native.h"

enum {
	POSSIBLE,
	IMPOSSIBLE,
	TOGETHER = 1024 /* Sleeps that are brought in order in turn. */
};

/* What one stream has noted, and the places of that among all streams' sleeps: these ascend. */
struct part {
	const uint32_t *tid;
	const uint64_t *off_ns;
	const uint32_t *places;
	int64_t count;
	int64_t next; /* 0 at first. */
};

struct sleeps {
	struct part *parts;
	int64_t part_count;
	const uint64_t *on_ns; /* Of all, in order. */
	int64_t count;
};

/* In order of when they ended. */
struct others {
	const uint32_t *tid;
	const uint64_t *off_ns;
	const uint64_t *on_ns;
	int64_t count;
	int64_t next; /* 0 at first. */
};

/* When the last sleep of each thread ended. */
struct last {
	struct keys keys;
	uint64_t *on_ns;
	int64_t count;
};

struct some {
	uint32_t tid[TOGETHER];
	uint64_t off_ns[TOGETHER];
};

static int64_t follow(uint32_t tid, uint64_t off_ns, uint64_t on_ns, struct last *last)
{
	uint64_t place = place_of(&last->keys, tid);

	if (!off_ns || off_ns > on_ns)
		return IMPOSSIBLE;
	if (last->keys.number[place] < 0) {
		if (last->count == (int64_t)1 << (last->keys.bits - 1))
			return TOO_MANY;
		last->keys.key[place] = tid;
		last->keys.number[place] = (int32_t)last->count++;
	} else if (off_ns < last->on_ns[last->keys.number[place]]) {
		return IMPOSSIBLE;
	}
	last->on_ns[last->keys.number[place]] = on_ns;
	return POSSIBLE;
}

/* Of several that end at once, the others come behind. */
static int64_t follow_others(struct others *others, uint64_t until_ns, struct last *last)
{
	int64_t found = POSSIBLE;

	for (; others->next < others->count && !found; others->next++) {
		int64_t i = others->next;

		if (others->on_ns[i] >= until_ns)
			break;
		found = follow(others->tid[i], others->off_ns[i], others->on_ns[i], last);
	}
	return found;
}

static int64_t gathered(const struct sleeps *sleeps, int64_t begin, int64_t end, struct some *some)
{
	int64_t count = 0;

	for (int64_t i = 0; i < sleeps->part_count; i++) {
		struct part *part = &sleeps->parts[i];

		for (; part->next < part->count && part->places[part->next] < end; part->next++) {
			int64_t at = part->places[part->next] - begin;

			if (at < 0)
				return WRONG;
			some->tid[at] = part->tid[part->next];
			some->off_ns[at] = part->off_ns[part->next];
			count++;
		}
	}
	return count == end - begin ? 0 : WRONG;
}

PUBLIC int64_t apart(const struct sleeps *sleeps, struct others *others, struct last *last)
{
	int64_t found = POSSIBLE;
	struct some some;

	empty(&last->keys);
	for (int64_t begin = 0; begin < sleeps->count && !found; begin += TOGETHER) {
		int64_t end = begin + TOGETHER < sleeps->count ? begin + TOGETHER : sleeps->count;

		if (gathered(sleeps, begin, end, &some))
			return WRONG;
		for (int64_t i = begin; i < end && !found; i++) {
			found = follow_others(others, sleeps->on_ns[i], last);
			if (!found)
				found = follow(some.tid[i - begin], some.off_ns[i - begin],
					       sleeps->on_ns[i], last);
		}
	}
	return found ? found : follow_others(others, UINT64_MAX, last);
}
