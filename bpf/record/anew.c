// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who threads and tasks are is told once, mostly in the first packets.  So that one that is lost
 * costs no more than a moment, it is told anew behind each so many events, when they are met next.
 */
#include "session.h"
#include "iostrata.skel.h"

/* What is told anew is one event in so many. */
#define EVENTS_EACH 512

/* BPF's programs change it as well, when a thread begins, ends or tells. */
static void forget_thread(struct thread *thread)
{
	unsigned char announced = ANNOUNCED;

	__atomic_compare_exchange_n(&thread->announced, &announced, ANNOUNCED_BEFORE, false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* How many are known to be told; if they are to be told anew, of so many nothing is known then. */
static uint64_t look_at_threads(struct session *session, bool anew)
{
	const unsigned int *owner = session->probes.skeleton->bss->thread_owner;
	uint64_t count = 0;

	for (unsigned int i = 0; i < MAX_THREADS; i++) {
		if (!owner[i] || session->threads[i].announced != ANNOUNCED)
			continue;
		count++;
		if (anew)
			forget_thread(&session->threads[i]);
	}
	return count;
}

static uint64_t look_at_tasks(struct session *session, bool anew)
{
	unsigned int *told = session->probes.skeleton->data->told_tasks;
	uint64_t count = 0;

	for (unsigned int i = 0; i < TOLD_TASKS; i++) {
		if (!told[i])
			continue;
		count++;
		if (anew)
			told[i] = 0;
	}
	return count;
}

void anew_follow(struct session *session)
{
	uint64_t events = session->rings.event_count - session->told_at_count, told;

	if (events < EVENTS_EACH)
		return;
	told = look_at_threads(session, false) + look_at_tasks(session, false);
	if (events < EVENTS_EACH * told)
		return;
	look_at_threads(session, true);
	look_at_tasks(session, true);
	session->told_at_count = session->rings.event_count;
}
