// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The control groups that events name -> facts/cgroups, a line each: id and path.
 * A group's id is its handle in its hierarchy's file system, so that the kernel says
 * where it is; each is looked up while it is likely to be there, within a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"
#include "shared.h"

#define FILEID_KERNFS 0xfe /* include/linux/exportfs.h */

#define MAX_HIERARCHIES 64

/* The paths found, at the same places as in the programs' table; "": it was gone. */
static const char *paths[CGROUP_SETS * CGROUP_WAYS];
/* Where each hierarchy is mounted, by its number, 0 being version 2; empty: nowhere. */
static char mount_points[MAX_HIERARCHIES][512];
static bool found_mounts;

static bool is_in_list(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += length) {
		bool begins = at == list || at[-1] == ',';

		if (begins && (!at[length] || strchr(",\n", at[length])))
			return true;
	}
	return false;
}

/* The number of the hierarchy of version 1 that is mounted with some options, 0: none.  A line
 * of /proc/self/cgroup is 4:cpu,cpuacct:/path, and a controller is in one hierarchy. */
static unsigned int hierarchy_of(const char *options)
{
	FILE *in = fopen("/proc/self/cgroup", "re");
	unsigned int found = 0, number;
	char line[4096], controllers[256];

	while (in && !found && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%u:%255[^:]:", &number, controllers) != 2)
			continue;
		controllers[strcspn(controllers, ",")] = 0;
		if (number < MAX_HIERARCHIES && is_in_list(options, controllers))
			found = number;
	}
	if (in)
		fclose(in);
	return found;
}

static void find_mounts(void)
{
	FILE *in = fopen("/proc/self/mountinfo", "re");
	char line[4096], place[512];

	found_mounts = true;
	while (in && fgets(line, sizeof(line), in)) {
		const char *options = strstr(line, " - cgroup");
		unsigned int number = 0;

		if (!options || sscanf(line, "%*s %*s %*s %*s %511s", place) != 1)
			continue;
		if (strncmp(options, " - cgroup2 ", 11)) {
			options = strrchr(line, ' ');
			number = options ? hierarchy_of(options + 1) : 0;
			if (!number)
				continue;
		}
		if (!mount_points[number][0])
			strcpy(mount_points[number], place);
	}
	if (in)
		fclose(in);
}

static const char *path_of(uint64_t group)
{
	const char *mount_point = mount_points[(group >> CGROUP_ID_BITS) % MAX_HIERARCHIES];
	uint64_t id = group & (((uint64_t)1 << CGROUP_ID_BITS) - 1);
	struct {
		struct file_handle handle;
		uint64_t id;
	} named = { .handle = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS } };
	char link[64], path[4096];
	int mount_fd = mount_point[0] ? open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int fd;
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
	if (!found_mounts)
		find_mounts();
	for (int i = 0; i < CGROUP_SETS * CGROUP_WAYS; i++) {
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
