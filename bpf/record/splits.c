// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whether a bio that is recorded was split: only then it is looked at when the last of one gets a
 * request, as what looks at that is hit by each request of the machine.
 */
#include "session.h"
#include "iostrata.skel.h"

/* Of those that were split until now, nobody saw when the last of them went on. */
void splits_follow(struct session *session)
{
	union event e = { .unseen = { .kind = UNSEEN_RESTS } };
	const struct iostrata *skeleton = session->probes.skeleton;

	if (session->probes.attached[OCCASION_SPLITS] || !skeleton->bss->splits_met)
		return;
	probes_attach(&session->probes, OCCASION_SPLITS);
	e.unseen.count = skeleton->bss->splits_met;
	own_event(&session->rings, &e, POINT_unseen, RECORDER_CPU);
}
