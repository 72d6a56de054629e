// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Where the recorder is, and what it may have open: what it finds out before it begins. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "record.h"

/* Each program, table and point is one; a point of several processes (uprobes) is several. */
#define MOST_OPEN 4096
/* linux/proc_ns.h: PROC_PID_INIT_INO and PROC_TIME_INIT_INO, part of the kernel's interface. */
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCu
#define INITIAL_TIME_NAMESPACE 0xEFFFFFFAu

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

static bool is_own(const char *namespace, ino_t initial)
{
	struct stat status;

	return !stat(namespace, &status) && status.st_ino != initial;
}

int limits_check_namespaces(void)
{
	if (is_own("/proc/self/ns/pid", INITIAL_PID_NAMESPACE)) {
		fail("this is not the machine's own PID namespace: the kernel tells of processes by "
		     "other numbers than they have here; record outside, or give the container "
		     "--pid=host");
		return -EPERM;
	}
	if (is_own("/proc/self/ns/time", INITIAL_TIME_NAMESPACE)) {
		fail("this is not the machine's own time namespace: the kernel tells of other times "
		     "than the clock has here; record outside");
		return -EPERM;
	}
	return 0;
}

const char *limits_text(int error)
{
	if (error == -EMFILE)
		return "Too many open files (ulimit -n)";
	if (error == -EFBIG)
		return "File too large (ulimit -f)";
	return strerror(-error);
}
