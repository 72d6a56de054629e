// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The directory that the trace is written into. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"

static bool is_trace_file(const char *name)
{
	return !strcmp(name, "metadata") || !strcmp(name, "recorder") || !strncmp(name, "cpu_", 4);
}

/* Nothing in it is another's; a link is removed, not what it leads to. */
static void remove_facts(int directory_fd)
{
	int fd = openat(directory_fd, "facts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *facts = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (facts && (entry = readdir(facts)))
		unlinkat(fd, entry->d_name, 0);
	if (facts)
		closedir(facts);
	unlinkat(directory_fd, "facts", facts ? AT_REMOVEDIR : 0);
}

/* Removes an old trace; -ENOTEMPTY: there is one (or something else) and force is off. */
static int clear(int directory_fd, bool force)
{
	int fd = dup(directory_fd);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int error = 0;

	if (!directory)
		return -errno;
	while (!error && (entry = readdir(directory))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!force)
			error = -ENOTEMPTY;
		else if (is_trace_file(entry->d_name) && unlinkat(directory_fd, entry->d_name, 0))
			error = -errno;
	}
	closedir(directory);
	if (!error && force)
		remove_facts(directory_fd);
	return error;
}

/* The directory's descriptor or -errno, said already. */
int output_open(const struct options *options)
{
	int fd, error;

	if (mkdir(options->directory, 0755) && errno != EEXIST) {
		error = -errno;
		fail("%s cannot be made: %s", options->directory, strerror(errno));
		return error;
	}
	/* What is removed must be in the very directory that was named. */
	fd = open(options->directory,
		  O_RDONLY | O_DIRECTORY | O_CLOEXEC | (options->force ? O_NOFOLLOW : 0));
	if (fd < 0) {
		error = -errno;
		fail("%s cannot be opened: %s", options->directory, strerror(errno));
		return error;
	}
	error = clear(fd, options->force);
	if (!error)
		return fd;
	close(fd);
	if (error == -ENOTEMPTY)
		fail("%s is not empty: choose another directory, or --force to replace the trace in it",
		     options->directory);
	else
		fail("%s cannot be cleared: %s", options->directory, strerror(-error));
	return error;
}

bool output_gone(int directory_fd)
{
	struct stat status;

	return !fstat(directory_fd, &status) && !status.st_nlink;
}
