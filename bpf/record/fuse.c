// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether daemons may serve file systems here: only then it is looked at what processes read. */
#include <stdio.h>
#include <string.h>

#include "record.h"

/* These are mounted on many machines, and hold nobody's data. */
static const char *const without_data[] = { "fuse.lxcfs ", "fuse.portal ", "fuse.gvfsd-fuse " };

static bool has_data(const char *type)
{
	for (unsigned int i = 0; i < sizeof(without_data) / sizeof(without_data[0]); i++) {
		if (!strncmp(type, without_data[i], strlen(without_data[i])))
			return false;
	}
	return !strncmp(type, "fuse ", 5) || !strncmp(type, "fuse.", 5) ||
	       !strncmp(type, "fuseblk", 7);
}

static bool has_mount(const char *path)
{
	FILE *mounts = fopen(path, "re");
	bool found = false;
	char line[4096];

	while (mounts && !found && fgets(line, sizeof(line), mounts)) {
		const char *type = strstr(line, " - ");

		found = type && has_data(type + 3);
	}
	if (mounts)
		fclose(mounts);
	return found;
}

/* Here, or where one of the processes that are asked for is. */
static bool is_mounted(const struct options *options)
{
	bool found = has_mount("/proc/self/mountinfo");

	for (unsigned int i = 0; !found && i < options->pid_count; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/mountinfo", options->pids[i]);
		found = has_mount(path);
	}
	return found;
}

bool fuse_is_served(const struct options *options)
{
	static const char *const point = "btf_trace_fuse_request_end";
	static bool is_known, present;

	if (!is_mounted(options))
		return false;
	/* Without the points of its requests, nothing tells who serves. */
	if (!is_known)
		is_known = !presence_test(&point, &present, 1);
	return present;
}
