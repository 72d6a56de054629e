// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The command has ended -> how many processes of its tree have not, and are recorded no more. */
#include <errno.h>
#include <signal.h>

#include "record.h"
#include "iostrata.skel.h"

static bool runs(pid_t pid)
{
	return !kill(pid, 0) || errno == EPERM;
}

unsigned int outlived(const struct iostrata *skeleton, const struct thread *threads)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < MAX_THREADS; i++) {
		unsigned int tid = skeleton->bss->thread_owner[i];

		/* Each process by its first thread. */
		if (tid && threads[i].tgid == tid && threads[i].kind <= THREAD_TARGET && runs(tid))
			count++;
	}
	return count;
}
