// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The control groups that events name -> facts/cgroups, a line each: id and path.
 * A group's id is its handle in the file system of version 2, so that the kernel says
 * where it is; each is looked up while it is likely to be there, within a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"
#include "shared.h"

#define FILEID_KERNFS 0xfe /* include/linux/exportfs.h */

/* The paths found, at the same places as in the programs' table; "": it was gone. */
static const char *paths[CGROUP_SETS * CGROUP_WAYS];
static char mount_point[512];

/* Where the file system of version 2 is mounted; empty: nowhere. */
static void find_mount(void)
{
	FILE *in = fopen("/proc/self/mountinfo", "re");
	char line[4096], place[512];

	while (in && !mount_point[0] && fgets(line, sizeof(line), in)) {
		if (strstr(line, " - cgroup2 ") &&
		    sscanf(line, "%*s %*s %*s %*s %511s", place) == 1)
			strcpy(mount_point, place);
	}
	if (in)
		fclose(in);
}

static const char *path_of(uint64_t id)
{
	struct {
		struct file_handle handle;
		uint64_t id;
	} named = { .handle = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS } };
	char link[64], path[4096];
	int mount_fd = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	size_t prefix = strlen(mount_point);
	ssize_t length = -1;

	if (mount_fd < 0)
		return "";
	memcpy(named.handle.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(mount_fd, &named.handle, O_PATH | O_CLOEXEC);
	close(mount_fd);
	if (fd < 0)
		return "";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	close(fd);
	path[length < 0 ? 0 : length] = 0;
	if (strncmp(path, mount_point, prefix))
		return "";
	return path[prefix] ? strdup(path + prefix) : "/";
}

void cgroups_follow(const unsigned long long *ids)
{
	if (!mount_point[0])
		find_mount();
	for (int i = 0; mount_point[0] && i < CGROUP_SETS * CGROUP_WAYS; i++) {
		if (ids[i] && !paths[i])
			paths[i] = path_of(ids[i]);
	}
}

int cgroups_write(const unsigned long long *ids, int directory_fd)
{
	FILE *out;

	cgroups_follow(ids);
	out = facts_create(directory_fd, "facts/cgroups");
	if (!out)
		return -errno;
	fputs("cgroup\tpath\n", out);
	for (int i = 0; i < CGROUP_SETS * CGROUP_WAYS; i++) {
		if (paths[i] && paths[i][0] && !strchr(paths[i], '\n'))
			fprintf(out, "%llu\t%s\n", ids[i], paths[i]);
	}
	return fclose(out) ? -errno : 0;
}
