// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the kernel says of the CPUs: how many numbers they have, and what was taken of their time. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

/* Of a list: "0-3,6" -> 7. */
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

uint64_t cpus_stolen_ns(void)
{
	FILE *stat = fopen("/proc/stat", "re");
	unsigned long long ticks = 0;

	/* user nice system idle iowait irq softirq steal: proc_stat(5) */
	if (stat && fscanf(stat, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		ticks = 0;
	if (stat)
		fclose(stat);
	return ticks * (NSEC_PER_SEC / sysconf(_SC_CLK_TCK));
}
