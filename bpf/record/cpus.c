// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The CPUs of a list of the kernel's: "0-3,6" -> 7. */
#include <errno.h>
#include <string.h>

#include "record.h"

static unsigned int read_limit(FILE *list)
{
	unsigned int number, limit = 0;

	while (fscanf(list, "%u%*[-,]", &number) == 1) {
		if (number >= limit)
			limit = number + 1;
	}
	return limit;
}

int cpus_limit(const char *path)
{
	FILE *list = fopen(path, "re");
	unsigned int limit;

	if (!list) {
		int error = -errno;

		fail("%s cannot be read: %s; is sysfs mounted?", path, strerror(-error));
		return error;
	}
	limit = read_limit(list);
	fclose(list);
	if (!limit) {
		fail("%s lists no CPU", path);
		return -EINVAL;
	}
	if (limit <= MAX_CPUS)
		return limit;
	fail("this machine has a CPU with the number %u, and the recorder has room for those below "
	     "%d: build it with a larger MAX_CPUS (bpf/shared.h)",
	     limit - 1, MAX_CPUS);
	return -E2BIG;
}
