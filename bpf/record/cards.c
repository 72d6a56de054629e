// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Network cards, by their drivers: a line `interface driver` each in facts/cards.  What has no
 * device (a bridge, a tap) is none.  Those of the recorder's own network namespace.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define INTERFACES "/sys/class/net"

static void print_card(FILE *out, const char *interface)
{
	char path[PATH_MAX], driver[PATH_MAX];
	const char *name;
	ssize_t length;

	snprintf(path, sizeof(path), INTERFACES "/%s/device/driver", interface);
	length = readlink(path, driver, sizeof(driver) - 1);
	if (length < 0)
		return;
	driver[length] = '\0';
	name = strrchr(driver, '/');
	fprintf(out, "%s\t%s\n", interface, name ? name + 1 : driver);
}

int cards_write(int directory_fd)
{
	FILE *out = facts_create(directory_fd, "facts/cards");
	DIR *interfaces;
	struct dirent *entry;

	if (!out)
		return -errno;
	interfaces = opendir(INTERFACES);
	while (interfaces && (entry = readdir(interfaces)))
		print_card(out, entry->d_name);
	if (interfaces)
		closedir(interfaces);
	return fclose(out) ? -errno : 0;
}
