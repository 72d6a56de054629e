// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Where the recorder is, and what it may have open: what it finds out before it begins. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "record.h"

/* Each program, table and point is one; a point of several processes (uprobes) is several. */
#define MOST_OPEN 4096
/* linux/proc_ns.h: PROC_PID_INIT_INO, which is part of the kernel's interface. */
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCu

void limits_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= MOST_OPEN)
		return;
	limit.rlim_cur = MOST_OPEN;
	if (limit.rlim_max >= MOST_OPEN) {
		setrlimit(RLIMIT_NOFILE, &limit);
		return;
	}
	limit.rlim_max = MOST_OPEN;
	if (!setrlimit(RLIMIT_NOFILE, &limit) || getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int limits_check_namespace(void)
{
	struct stat status;

	if (stat("/proc/self/ns/pid", &status) || status.st_ino == INITIAL_PID_NAMESPACE)
		return 0;
	fail("this is not the machine's own PID namespace: the kernel tells of processes by other "
	     "numbers than they have here; record outside, or give the container --pid=host");
	return -EPERM;
}

const char *limits_text(int error)
{
	if (error == -EMFILE)
		return "Too many open files (ulimit -n)";
	if (error == -EFBIG)
		return "File too large (ulimit -f)";
	return strerror(-error);
}
