// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether 32-bit programs run here, or are about to: only then their calls are looked at. */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

static bool is_compat(const char *path)
{
	unsigned char head[EI_CLASS + 1] = {};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool whole = fd >= 0 && read(fd, head, sizeof(head)) == sizeof(head);

	if (fd >= 0)
		close(fd);
	return whole && !memcmp(head, ELFMAG, SELFMAG) && head[EI_CLASS] == ELFCLASS32;
}

/* As execvp() finds it. */
static bool command_is_compat(const char *name)
{
	const char *directory = getenv("PATH");
	char path[PATH_MAX];

	if (strchr(name, '/'))
		return is_compat(name);
	while (directory && *directory) {
		size_t length = strcspn(directory, ":");

		snprintf(path, sizeof(path), "%.*s/%s", (int)length, directory, name);
		if (!access(path, X_OK))
			return is_compat(path);
		directory += length + (directory[length] == ':');
	}
	return false;
}

static bool process_is_compat(void)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (processes && !found && (entry = readdir(processes))) {
		char path[300];

		snprintf(path, sizeof(path), "/proc/%s/exe", entry->d_name);
		found = atoi(entry->d_name) > 0 && is_compat(path);
	}
	if (processes)
		closedir(processes);
	return found;
}

void compat_begin(struct session *session)
{
	if ((session->options.command && command_is_compat(session->options.command[0])) ||
	    process_is_compat())
		probes_attach(&session->probes, OCCASION_COMPAT);
}
