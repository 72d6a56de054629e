/* SPDX-License-Identifier: Apache-2.0 */
/* What sleeps waited for, by who ended them and what that one had waited for itself: the chain of
 * wake-ups, level by level. ``Wakers`` of stitch/wakers.py says what each step means. */
#include <stdbool.h>

#include "chain.h"
#include "native.h"

enum {
	STILL = -1,
	CPU_BITS = 16,
	TASK_NOLOAD = 0x400,
	WAIT_WIDTH = sizeof(struct wait) / sizeof(int64_t)
};

/* What is found, each row of it in columns of ``most`` rows. ``ended``: of each sleep, 1 if anybody
 * is known to have caused its end; ``beyond``: how many waits are left behind the last level. */
struct found {
	int64_t most;
	int64_t span_count;
	int64_t tie_count[ENDINGS];
	int64_t service_count;
	int64_t beyond;
	int64_t *spans;         /* Owner, rank, begin, end, and what each is of. */
	int64_t *ties[ENDINGS]; /* Owner, row, begin and end. */
	int64_t *services;      /* Owner, thread, begin and end. */
	int64_t *ended;
	/* Room to work in. */
	struct wait *front;
	struct wait *next;
	struct wait *asked;
	int64_t *ending;
	struct deed *deeds;
};

/* Why nothing more can be found. */
enum {
	NO_ROOM = -1,
	NOT_KNOWN = -2
};

/* As NumPy does, whatever a recording has. */
static inline int64_t minus(int64_t one, int64_t other)
{
	return (int64_t)((uint64_t)one - (uint64_t)other);
}

static inline int64_t plus(int64_t one, int64_t other)
{
	return (int64_t)((uint64_t)one + (uint64_t)other);
}

static inline int64_t both(int64_t high, int bits, int64_t low)
{
	return (int64_t)(((uint64_t)high << bits) + (uint64_t)low);
}

static inline int64_t later(int64_t one, int64_t other)
{
	return one > other ? one : other;
}

static inline int64_t at(const int64_t *column, int64_t row)
{
	return row < 0 ? -1 : column[row];
}

static inline int64_t runnable_ns(const struct sleeps *sleeps, int64_t row)
{
	if (row < 0)
		return -1;
	return sleeps->wake_ns[row] > 0 ? sleeps->wake_ns[row] : sleeps->off_ns[row];
}

static inline int64_t released_ns(const struct sleeps *sleeps, int64_t row)
{
	int64_t until_ns;

	if (row < 0)
		return -1;
	until_ns = plus(runnable_ns(sleeps, row), sleeps->throttled_ns[row]);
	return until_ns < sleeps->on_ns[row] ? until_ns : sleeps->on_ns[row];
}

/* One more row; whether there is room for it. */
static inline bool put(const struct found *found, int64_t *columns, int64_t *count,
		       const int64_t *values, int width)
{
	if (*count == found->most)
		return false;
	for (int i = 0; i < width; i++)
		columns[i * found->most + *count] = values[i];
	++*count;
	return true;
}

static bool span(struct found *found, int64_t owner, int64_t rank, int64_t begin_ns, int64_t end_ns,
		 int64_t of)
{
	if (owner < 0 || end_ns <= begin_ns)
		return true;
	return put(found, found->spans, &found->span_count,
		   (const int64_t[]){ owner, rank, begin_ns, end_ns, of }, 5);
}

static bool tie(struct found *found, enum ending what, const struct wait *wait, int64_t row,
		int64_t end_ns)
{
	if (row < 0)
		return true;
	return put(found, found->ties[what], &found->tie_count[what],
		   (const int64_t[]){ wait->owner, row, wait->begin_ns, end_ns }, 4);
}

static int64_t kind_of(const struct chain *chain, int64_t tid, int64_t time_ns)
{
	int64_t row = at_or_before(&chain->kinds.rows, tid, time_ns);

	if (row < 0)
		row = at_or_after(&chain->kinds.rows, tid, time_ns);
	return row < 0 ? 0 : chain->kinds.value[row];
}

/* Without those who slept until a timer of their own. Returns how many are left, or NO_ROOM. */
static int64_t without_pauses(const struct chain *chain, struct found *found, struct wait *front,
			      int64_t count)
{
	int64_t left = 0;

	for (int64_t i = 0; i < count; i++) {
		struct wait *wait = &front[i];

		if (wait->context != chain->context.timer) {
			front[left++] = *wait;
			continue;
		}
		found->ended[wait->sleep] = 1;
		if (!chain->sleeps.chosen[wait->sleep] &&
		    !span(found, wait->owner, chain->rank.pause, wait->begin_ns, wait->end_ns, -1))
			return NO_ROOM;
	}
	return left;
}

/* What its waker's CPU completed last where an interrupt let go, else the waker; NOT_KNOWN: not yet. */
static int64_t last_completed(const struct chain *chain, const struct wait *wait)
{
	if (wait->context == chain->context.interrupt)
		return at_or_before(&chain->on_cpu, both(wait->waker, CPU_BITS, wait->cpu),
				    wait->end_ns);
	if (wait->context == chain->context.thread)
		return at_or_before(&chain->of_thread, wait->waker, wait->end_ns);
	if (!chain->on_thread.keys.number)
		return NOT_KNOWN;
	return at_or_before(&chain->on_thread, wait->waker, wait->end_ns);
}

/* Whether a piece may have waited for what ended. */
static bool is_possible(const struct chain *chain, int64_t owner, int64_t ending)
{
	const struct pieces *pieces = &chain->pieces;
	int64_t bio = at(chain->endings.row[BIO], ending);

	if (bio < 0 || owner >= pieces->count || chain->bios.asker[bio] == owner)
		return true;
	return pieces->may_be[pieces->device[owner] * pieces->disks + chain->bios.disk[bio]];
}

/* Whether something ended while one waited, just before that was over. */
static inline bool ended_in(const struct chain *chain, const struct wait *wait, int64_t ending)
{
	int64_t time_ns = at(chain->endings.time_ns, ending);

	return time_ns >= wait->begin_ns && minus(wait->end_ns, time_ns) <= chain->limit.soon_ns;
}

/* The last of the owner's own that the waker completed just before it let go, -1: none. */
static int64_t own_completed(const struct chain *chain, const struct wait *wait)
{
	const struct own *own = &chain->own;
	int64_t first, low, high;

	if (wait->owner >= own->owners)
		return -1;
	first = low = own->first[wait->owner];
	high = own->first[wait->owner + 1];
	while (low < high) {
		int64_t middle = low + (high - low) / 2;

		if (chain->endings.time_ns[own->ending[middle]] > wait->end_ns)
			high = middle;
		else
			low = middle + 1;
	}
	for (; low > first && ended_in(chain, wait, own->ending[low - 1]); low--)
		if (chain->endings.tid[own->ending[low - 1]] == wait->waker)
			return own->ending[low - 1];
	return -1;
}

/* Which completion the waker had just made, if it was its, -1: none, NOT_KNOWN: not yet. */
static int64_t completed_by(const struct chain *chain, const struct wait *wait)
{
	int64_t completed;

	if (wait->context == STILL)
		return -1;
	if (wait->context == chain->context.unknown) {
		int64_t mine = chain->own.first ? own_completed(chain, wait) : NOT_KNOWN;

		/* Mostly it is. */
		if (mine == NOT_KNOWN || ended_in(chain, wait, mine))
			return mine;
	}
	completed = last_completed(chain, wait);
	if (completed == NOT_KNOWN)
		return NOT_KNOWN;
	if (!is_possible(chain, wait->owner, completed)) {
		if (!chain->own.first)
			return NOT_KNOWN;
		if (own_completed(chain, wait) != completed)
			return -1;
	}
	return ended_in(chain, wait, completed) ? completed : -1;
}

/* What the waker had just ended when it woke the sleeper, -1: nothing, NOT_KNOWN: not yet. */
static int64_t ending_of(const struct chain *chain, const struct wait *wait)
{
	const int64_t *times = chain->endings.time_ns;
	int64_t completed = completed_by(chain, wait), resumed, told;

	if (completed == NOT_KNOWN || wait->context == chain->context.interrupt ||
	    wait->context == STILL)
		return completed;
	told = at_or_before(&chain->told, wait->waker, wait->end_ns);
	if (told < 0 && (completed < 0 || wait->context != chain->context.thread))
		return completed;
	resumed = at(chain->sleeps.on_ns, at_or_before(&chain->resumed, wait->waker, wait->end_ns));
	if (wait->context == chain->context.thread && completed >= 0) {
		int64_t kind = kind_of(chain, wait->waker, wait->end_ns);

		if ((kind && kind != chain->kind.helper) || resumed > times[completed])
			completed = -1;
	}
	if (at(times, told) < wait->begin_ns || at(times, told) < resumed)
		told = -1;
	return at(times, told) >= at(times, completed) ? told : completed;
}

/* What ended is tied to who waited for it. Returns 0, or why it is not. */
static int64_t tied(const struct chain *chain, struct found *found, const struct wait *front,
		    int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		const struct wait *wait = &front[i];
		int64_t ending = found->ending[i] = ending_of(chain, wait);
		int64_t done_ns = later(at(chain->endings.since_ns, ending), wait->begin_ns);

		if (ending == NOT_KNOWN)
			return NOT_KNOWN;
		if (ending < 0) {
			/* It is told at once: the first of them is mostly not far. */
			if (!chain->call_begin_ns && wait->context != chain->context.interrupt)
				return NOT_KNOWN;
			continue;
		}
		found->ended[wait->sleep] = 1;
		if (!span(found, wait->owner, chain->rank.interrupt, done_ns, wait->end_ns, -1))
			return NO_ROOM;
		for (int what = 0; what < ENDINGS; what++)
			if (!tie(found, what, wait, chain->endings.row[what][ending], done_ns))
				return NO_ROOM;
	}
	return 0;
}

/* Before it was asked for a request, its completion waited for who asked for it. Returns how many
 * did, or NO_ROOM. */
static int64_t asked_by(const struct chain *chain, struct found *found, const struct wait *front,
			int64_t count)
{
	int64_t asked = 0;

	for (int64_t i = 0; i < count; i++) {
		const struct wait *wait = &front[i];
		int64_t bio = at(chain->endings.row[BIO], found->ending[i]);
		int64_t queue_ns = at(chain->bios.queue_ns, bio);

		if (bio < 0)
			continue;
		if (chain->bios.held[bio]) {
			if (!span(found, wait->owner, chain->rank.held, wait->begin_ns, queue_ns,
				  plus(bio, chain->number.bio)))
				return NO_ROOM;
		} else if (queue_ns > wait->begin_ns) {
			found->asked[asked++] = (struct wait){
				wait->owner,          wait->sleep, wait->begin_ns, queue_ns,
				chain->bios.tid[bio], wait->cpu,   STILL,          0
			};
		}
	}
	return asked;
}

/* Those whose waker ended nothing, as a thread. */
static int64_t without_endings(const struct chain *chain, const struct found *found,
			       struct wait *front, int64_t count)
{
	int64_t left = 0;

	for (int64_t i = 0; i < count; i++)
		if (found->ending[i] < 0 && front[i].context != chain->context.interrupt)
			front[left++] = front[i];
	return left;
}

/* The last sleep of a waker, -1: it is not known. */
static int64_t last_sleep(const struct chain *chain, const struct wait *wait, bool helper)
{
	int64_t last = at_or_before(&chain->resumed, wait->waker, wait->end_ns);

	if (helper) {
		int64_t awake = at_or_before(&chain->awake, wait->waker, wait->end_ns);

		last = awake >= 0 ? awake : last;
	}
	if (at(chain->sleeps.on_ns, last) <=
	    at(chain->forgotten.value,
	       at_or_before(&chain->forgotten.rows, wait->waker, wait->end_ns)))
		return -1;
	return last;
}

static int64_t call_of(const struct chain *chain, const struct wait *wait)
{
	int64_t call = at_or_before(&chain->calls.rows, wait->waker, wait->end_ns);

	return call >= 0 && wait->end_ns <= chain->calls.value[call] ? call : -1;
}

/* What a waker of some kind did; whether that is known. */
static bool did(const struct chain *chain, const struct wait *wait, int64_t kind, struct deed *deed)
{
	const struct sleeps *sleeps = &chain->sleeps;
	bool helper = kind == chain->kind.helper, works = helper || kind == chain->kind.worker;
	int64_t call = call_of(chain, wait), sleep = last_sleep(chain, wait, helper), floor_ns = -1;
	bool asleep = at(sleeps->wake_ns, sleep) > 0;
	bool idle = helper && asleep && (at(sleeps->state, sleep) & TASK_NOLOAD) > 0;
	bool other =
		(wait->other_work > 0 || at(sleeps->met, sleep) > 0) && asleep && helper && !idle;

	if (wait->waker <= 0 || wait->waker == sleeps->tid[wait->sleep])
		return false;
	if (!(works && !(helper && sleep < 0)) && !(call >= 0 && kind != chain->kind.journal))
		return false;
	if (other)
		floor_ns = runnable_ns(sleeps, sleep);
	else if (!works)
		floor_ns = at(chain->call_begin_ns, call);
	*deed = (struct deed){ .sleep = sleep,
			       .floor_ns = later(wait->begin_ns, floor_ns),
			       .helper = helper,
			       .idle = idle };
	return true;
}

/* What wakers did as threads. Returns of how many that is known, or NO_ROOM. */
static int64_t deeds_of(const struct chain *chain, struct found *found, const struct wait *front,
			int64_t count)
{
	int64_t deeds = 0;

	for (int64_t i = 0; i < count; i++) {
		const struct wait *wait = &front[i];
		int64_t kind = kind_of(chain, wait->waker, wait->end_ns);

		if (kind == chain->kind.journal) {
			int64_t commit =
				at_or_before(&chain->commits.rows, wait->waker, wait->end_ns);

			if (at(chain->commits.value, commit) > wait->begin_ns &&
			    !tie(found, COMMIT, wait, commit, wait->end_ns))
				return NO_ROOM;
		}
		if (did(chain, wait, kind, &found->deeds[deeds])) {
			found->ended[wait->sleep] = 1;
			found->deeds[deeds++].wait = i;
		}
	}
	return deeds;
}

/* The spans of what they did, rank by rank. */
static bool told_of(const struct chain *chain, struct found *found, const struct wait *front,
		    int64_t deeds)
{
	const struct sleeps *sleeps = &chain->sleeps;
	const int64_t rank[] = { chain->rank.lock, chain->rank.runqueue, chain->rank.throttled,
				 chain->rank.worker };

	for (int part = 0; part < 4; part++) {
		for (int64_t i = 0; i < deeds; i++) {
			const struct deed *deed = &found->deeds[i];
			const struct wait *wait = &front[deed->wait];
			int64_t on_ns = at(sleeps->on_ns, deed->sleep);
			int64_t since_ns = later(deed->floor_ns, runnable_ns(sleeps, deed->sleep));
			int64_t holder = plus(wait->waker, chain->number.thread);
			int64_t number = plus(deed->sleep, chain->number.sleep);
			int64_t begin_ns[] = { later(deed->floor_ns, on_ns), since_ns, since_ns,
					       since_ns };
			int64_t end_ns[] = { wait->end_ns, on_ns, released_ns(sleeps, deed->sleep),
					     wait->end_ns };
			int64_t of[] = { holder, number, number, holder };

			if ((part == 3) != (deed->helper != 0))
				continue;
			if (!span(found, wait->owner, rank[part], begin_ns[part], end_ns[part],
				  of[part]))
				return false;
		}
	}
	return true;
}

static bool serves(const struct chain *chain, struct found *found, const struct wait *front,
		   int64_t deeds)
{
	for (int64_t i = 0; i < deeds; i++) {
		const struct deed *deed = &found->deeds[i];
		const struct wait *wait = &front[deed->wait];
		int64_t since_ns;

		if (!deed->helper)
			continue;
		since_ns = later(deed->floor_ns, runnable_ns(&chain->sleeps, deed->sleep));
		if (!put(found, found->services, &found->service_count,
			 (const int64_t[]){ wait->owner, wait->waker, since_ns, wait->end_ns }, 4))
			return false;
	}
	return true;
}

/* What they had waited for before that. Returns how many wait for something, or NO_ROOM. */
static int64_t before(const struct chain *chain, struct found *found, const struct wait *front,
		      int64_t deeds)
{
	const struct sleeps *sleeps = &chain->sleeps;
	int64_t count = 0;

	for (int64_t i = 0; i < deeds; i++) {
		const struct deed *deed = &found->deeds[i];
		const struct wait *wait = &front[deed->wait];
		int64_t sleep = deed->sleep, end_ns = runnable_ns(sleeps, sleep), begin_ns;

		if (sleep < 0 || sleeps->wake_ns[sleep] <= 0 || end_ns <= deed->floor_ns)
			continue;
		begin_ns =
			deed->idle ? deed->floor_ns : later(deed->floor_ns, sleeps->off_ns[sleep]);
		if (sleeps->bio[sleep] >= 0) {
			/* Whatever ended then, only made room for the request. */
			if (!span(found, wait->owner, chain->rank.asking, begin_ns, end_ns,
				  chain->bios.request[sleeps->bio[sleep]]))
				return NO_ROOM;
			continue;
		}
		if (count == found->most)
			return NO_ROOM;
		found->next[count++] = (struct wait){ wait->owner,
						      wait->sleep,
						      begin_ns,
						      end_ns,
						      sleeps->waker[sleep],
						      sleeps->waker_cpu[sleep],
						      sleeps->context[sleep],
						      sleeps->waker_other_work[sleep] };
	}
	for (int64_t i = 0; i < deeds; i++) {
		const struct deed *deed = &found->deeds[i];
		const struct wait *wait = &front[deed->wait];
		int64_t off_ns = at(sleeps->off_ns, deed->sleep);

		if (deed->idle || off_ns <= deed->floor_ns)
			continue;
		if (count == found->most)
			return NO_ROOM;
		found->next[count++] =
			(struct wait){ wait->owner,    wait->sleep,
				       deed->floor_ns, off_ns,
				       wait->waker,    wait->cpu,
				       STILL,          at(sleeps->other_work, deed->sleep) };
	}
	return count;
}

static bool leads_within(const int64_t *rows, int64_t count, int64_t limit)
{
	for (int64_t i = 0; i < count; i++)
		if (rows[i] < -1 || rows[i] >= limit)
			return false;
	return true;
}

static bool is_whole(const struct chain *chain, const struct wait *front, int64_t count)
{
	const struct pieces *pieces = &chain->pieces;

	for (int64_t i = 0; i < count; i++)
		if (front[i].owner < 0 || (uint64_t)front[i].sleep >= (uint64_t)chain->sleeps.count)
			return false;
	for (int64_t i = 0; i < pieces->count; i++)
		if ((uint64_t)pieces->device[i] >= (uint64_t)pieces->devices)
			return false;
	for (int64_t i = 0; i < chain->bios.count; i++)
		if ((uint64_t)chain->bios.disk[i] >= (uint64_t)pieces->disks)
			return false;
	return leads_within(chain->sleeps.bio, chain->sleeps.count, chain->bios.count) &&
	       leads_within(chain->endings.row[BIO], chain->endings.count, chain->bios.count);
}

/* The front behind this one, which is written over. Returns how many it has, or why it is not known. */
static int64_t follow(const struct chain *chain, struct found *found, struct wait *front,
		      int64_t count)
{
	int64_t why_not, asked, deeds, next;

	count = without_pauses(chain, found, front, count);
	if (count < 0)
		return NO_ROOM;
	why_not = tied(chain, found, front, count);
	if (why_not)
		return why_not;
	asked = asked_by(chain, found, front, count);
	if (asked < 0)
		return NO_ROOM;
	count = without_endings(chain, found, front, count);
	deeds = deeds_of(chain, found, front, count);
	if (deeds < 0 || !told_of(chain, found, front, deeds) ||
	    !serves(chain, found, front, deeds))
		return NO_ROOM;
	next = before(chain, found, front, deeds);
	if (next < 0 || asked > found->most - next)
		return NO_ROOM;
	for (int64_t i = 0; i < next; i++)
		front[i] = found->next[i];
	for (int64_t i = 0; i < asked; i++)
		front[next + i] = found->asked[i];
	return next + asked;
}

/* Columns of a struct wait. */
struct waits {
	const int64_t *column[WAIT_WIDTH];
};

/* Returns 1 if what is not known yet is needed. */
PUBLIC int64_t follow_wakers(const struct chain *chain, const struct waits *waits, int64_t count,
			     struct found *found)
{
	if (count > found->most)
		return TOO_MANY;
	for (int64_t i = 0; i < count; i++) {
		const int64_t *const *of = waits->column;

		found->front[i] = (struct wait){ of[0][i], of[1][i], of[2][i], of[3][i],
						 of[4][i], of[5][i], of[6][i], of[7][i] };
	}
	if (!is_whole(chain, found->front, count))
		return WRONG;
	for (int64_t level = 0; level < chain->limit.levels && count; level++) {
		count = follow(chain, found, found->front, count);
		if (count < 0)
			return count == NOT_KNOWN ? 1 : TOO_MANY;
	}
	found->beyond = count;
	return 0;
}
