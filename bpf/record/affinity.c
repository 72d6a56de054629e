// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which CPUs each thread of a process may run on: a line `tid cpus` each in facts/affinity, in the
 * kernel's words (0-3,8), of virtual machines' processes.
 */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

#define ALLOWED "Cpus_allowed_list:\t"

static void tell_thread(pid_t pid, pid_t tid, FILE *out)
{
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	in = fopen(path, "re");
	while (in && getline(&line, &room, in) > 0) {
		if (!strncmp(line, ALLOWED, strlen(ALLOWED)))
			fprintf(out, "%d\t%s", tid, line + strlen(ALLOWED));
	}
	free(line);
	if (in)
		fclose(in);
}

void affinity_tell(pid_t pid, FILE *out)
{
	struct dirent *entry;
	char path[64];
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	threads = opendir(path);
	while (threads && (entry = readdir(threads))) {
		if (atoi(entry->d_name) > 0)
			tell_thread(pid, atoi(entry->d_name), out);
	}
	if (threads)
		closedir(threads);
}
