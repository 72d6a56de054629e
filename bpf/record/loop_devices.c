// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whether loop devices that can be written to are set up (packages' images cannot), or one that is
 * recorded was met later: only then their workers are looked at, as what looks at them is hit by
 * each work of the kernel.
 */
#include <string.h>

#include <linux/major.h>

#include "session.h"
#include "iostrata.skel.h"

void loop_devices_begin(struct session *session)
{
	const struct blocks *blocks = &session->blocks;
	bool reads = session->options.reads;

	for (unsigned int i = 0; i < blocks->count; i++) {
		const struct block *block = &blocks->list[i];

		if (block->dev >> 20 == LOOP_MAJOR && strcmp(block->backing, "-") &&
		    (reads || strcmp(block->read_only, "1")))
			probes_attach(&session->probes, OCCASION_LOOPS);
	}
	loop_devices_follow(session);
}

/* What was done for the first writes until now nobody saw: it is nobody's time. */
void loop_devices_follow(struct session *session)
{
	if (session->probes.skeleton->bss->watched_loops)
		probes_attach(&session->probes, OCCASION_LOOPS);
}
