// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The processes that run virtual machines (VMMs), found by what they hold open. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define MACHINE "anon_inode:kvm-vm"

static bool holds_machine(const char *pid)
{
	struct dirent *entry;
	bool found = false;
	char path[64];
	DIR *descriptors;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	descriptors = opendir(path);
	while (descriptors && !found && (entry = readdir(descriptors))) {
		char target[sizeof(MACHINE) + 1] = "";

		readlinkat(dirfd(descriptors), entry->d_name, target, sizeof(target) - 1);
		found = !strcmp(target, MACHINE);
	}
	if (descriptors)
		closedir(descriptors);
	return found;
}

int vmm_add(struct iostrata *skeleton, struct thread *threads)
{
	struct dirent *entry;
	DIR *processes;

	if (access("/sys/module/kvm", F_OK))
		return 0;
	processes = opendir("/proc");
	if (!processes) {
		fail("/proc cannot be read: %s", strerror(errno));
		return -errno;
	}
	while ((entry = readdir(processes))) {
		pid_t pid = atoi(entry->d_name);

		if (pid <= 0 || !holds_machine(entry->d_name))
			continue;
		/* Twice: what the first pass missed while it was being born, the second finds. */
		filter_add_process(skeleton, threads, pid, THREAD_VMM, 0);
		filter_add_process(skeleton, threads, pid, THREAD_VMM, 0);
	}
	closedir(processes);
	return 0;
}
