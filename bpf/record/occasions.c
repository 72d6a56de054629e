// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What is looked at only once there is something to see, as what looks at it is hit by all of the
 * machine: 32-bit programs' calls, when the last of a bio that was split gets a request, and what
 * programs that the kernel skipped would have seen.
 */
#include "session.h"
#include "iostrata.skel.h"

/* met: how often it was met until now, which nobody saw. */
static void follow(struct session *session, enum occasion occasion, const __u64 *met,
		   enum unseen_kind kind)
{
	if (session->probes.attached[occasion] || !*met)
		return;
	probes_attach(&session->probes, occasion);
	session->probes.skeleton->bss->unseen[kind].count = *met;
	own_unseen(&session->rings);
}

void occasions_follow(struct session *session)
{
	const struct iostrata__bss *bss = session->probes.skeleton->bss;

	follow(session, OCCASION_COMPAT, &bss->compat_execs, UNSEEN_COMPAT);
	follow(session, OCCASION_SPLITS, &bss->splits_met, UNSEEN_RESTS);
	misses_stand_in(&session->rings, &session->probes);
}
