// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the kernel tells everybody of its devices, as they come, go or change. */
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "record.h"

#define KERNELS_OWN 1 /* udev's are another group's */

int uevents_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = KERNELS_OWN };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* ACTION@PATH, then lines of KEY=VALUE, each of which ends with a zero. */
static bool is_of_disk(const char *text, const char *end)
{
	for (; text < end; text += strlen(text) + 1) {
		if (!strcmp(text, "SUBSYSTEM=block"))
			return true;
	}
	return false;
}

bool uevents_of_disks(int fd)
{
	char text[8192];
	bool found = false;
	ssize_t got;

	/* None that does not fit: what is lost may be one. */
	while ((got = recv(fd, text, sizeof(text) - 1, 0)) > 0 || (got < 0 && errno == ENOBUFS)) {
		if (got < 0) {
			found = true;
			continue;
		}
		text[got] = 0;
		found |= is_of_disk(text, text + got);
	}
	return found;
}
