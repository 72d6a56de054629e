// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The end without the wait: for each point of a system call that is detached the kernel waits
 * until nobody uses it, 60 ms, one after the other (perf_trace_event_unreg).
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

/* Whoever started us may wait for the end of a pipe, or hold a lock by a descriptor. */
static void close_all_but_anonymous(void)
{
	DIR *descriptors = opendir("/proc/self/fd");
	struct dirent *entry;

	while (descriptors && (entry = readdir(descriptors))) {
		char target[32] = {};
		int fd = atoi(entry->d_name);

		if (fd == dirfd(descriptors) ||
		    readlinkat(dirfd(descriptors), entry->d_name, target, sizeof(target) - 1) < 0)
			continue;
		if (strncmp(target, "anon_inode:", strlen("anon_inode:")))
			close(fd);
	}
	if (descriptors)
		closedir(descriptors);
}

void leave_to_child(void)
{
	pid_t parent = getpid();

	if (fork())
		return;
	setsid();
	close_all_but_anonymous();
	/* Who closes last is who waits. */
	while (getppid() == parent)
		usleep(1000);
	_exit(0);
}
