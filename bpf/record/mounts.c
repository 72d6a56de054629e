// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which file systems are mounted here, or where one of the processes that are asked for is. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "record.h"

static bool any_in(const char *path, bool (*is_it)(const char *type))
{
	FILE *mounts = fopen(path, "re");
	bool found = false;
	char line[4096];

	while (mounts && !found && fgets(line, sizeof(line), mounts)) {
		const char *type = strstr(line, " - ");

		found = type && is_it(type + 3);
	}
	if (mounts)
		fclose(mounts);
	return found;
}

bool mounts_any(const struct options *options, bool (*is_it)(const char *type))
{
	bool found = any_in("/proc/self/mountinfo", is_it);

	for (unsigned int i = 0; !found && i < options->pid_count; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/mountinfo", options->pids[i]);
		found = any_in(path, is_it);
	}
	return found;
}

int mounts_open(void)
{
	return open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
}

bool mounts_has_type(const char *type, const char *const *names, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		size_t length = strlen(names[i]);

		if (!strncmp(type, names[i], length) && type[length] == ' ')
			return true;
	}
	return false;
}
