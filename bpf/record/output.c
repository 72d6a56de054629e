// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The directory that the trace is written into. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"

/* In the head of the metadata of each trace of ours. */
#define OURS "iostrata_format"

static bool is_made_of(const char *text, const char *letters)
{
	return *text && !text[strspn(text, letters)];
}

static bool is_stream(const char *name)
{
	const char *number = name + 4, *rest;

	if (strncmp(name, "cpu_", 4))
		return false;
	rest = number + strspn(number, "0123456789");
	return rest != number && (!*rest || !strcmp(rest, ".zst"));
}

static bool is_fact(const char *name)
{
	return is_made_of(name, "abcdefghijklmnopqrstuvwxyz_");
}

static bool is_ours(int directory_fd)
{
	int fd = openat(directory_fd, "metadata", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char head[4096];
	ssize_t got = -1;
	struct stat status;

	if (fd < 0)
		return false;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode))
		got = read(fd, head, sizeof(head));
	close(fd);
	return got > 0 && memmem(head, got, OURS, strlen(OURS));
}

/* What is named like a fact; others in there keep the directory.  A link is not followed. */
static void remove_facts(int directory_fd)
{
	int fd = openat(directory_fd, "facts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *facts = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (facts && (entry = readdir(facts))) {
		if (is_fact(entry->d_name))
			unlinkat(fd, entry->d_name, 0);
	}
	if (facts)
		closedir(facts);
	unlinkat(directory_fd, "facts", facts ? AT_REMOVEDIR : 0);
}

static bool is_empty(DIR *directory)
{
	struct dirent *entry;

	while ((entry = readdir(directory))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			return false;
	}
	return true;
}

/* The metadata last: what is left of a removal that was interrupted is ours still. */
static int remove_trace(int directory_fd, DIR *directory)
{
	struct dirent *entry;

	rewinddir(directory);
	while ((entry = readdir(directory))) {
		if (is_stream(entry->d_name) && unlinkat(directory_fd, entry->d_name, 0))
			return -errno;
	}
	remove_facts(directory_fd);
	if (unlinkat(directory_fd, "recorder", 0) && errno != ENOENT)
		return -errno;
	return unlinkat(directory_fd, "metadata", 0) ? -errno : 0;
}

/* Removes an old trace; -ENOTEMPTY: there is one (or something else) and force is off;
 * -EEXIST: what is there is none of ours. */
static int clear(int directory_fd, bool force)
{
	int fd = dup(directory_fd);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	int error = 0;

	if (!directory)
		return -errno;
	if (!is_empty(directory)) {
		if (!force)
			error = -ENOTEMPTY;
		else
			error = is_ours(directory_fd) ? remove_trace(directory_fd, directory)
						      : -EEXIST;
	}
	closedir(directory);
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
	/* What is written and removed must be in the very directory that was named: where others
	 * may write, one of them may have put a link there. */
	fd = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		error = -errno;
		fail("%s cannot be opened: %s; a link is not followed", options->directory,
		     limits_text(error));
		return error;
	}
	error = clear(fd, options->force);
	if (!error)
		return fd;
	close(fd);
	if (error == -ENOTEMPTY)
		fail("%s is not empty: choose another directory, or --force to replace the trace in it",
		     options->directory);
	else if (error == -EEXIST)
		fail("%s holds something else than a trace of ours: choose another directory",
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
