// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which OSD of its cluster a process of Ceph is: what its command line says. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define NAMED "osd."

/* The value of an option: of this argument, behind it, or the next one; NULL: it is another. */
static const char *value_of(const char *argument, const char *option, const char *next)
{
	size_t length = strlen(option);

	if (strncmp(argument, option, length))
		return NULL;
	if (!argument[length])
		return next;
	return argument[length] == '=' ? argument + length + 1 : NULL;
}

/* "0", or "osd.0" */
static int number_in(const char *text)
{
	const char *digits = strncmp(text, NAMED, strlen(NAMED)) ? text : text + strlen(NAMED);
	char *end;
	long number = strtol(digits, &end, 10);

	return end != digits && !*end && number >= 0 && number < 1 << 24 ? (int)number : -1;
}

int osd_number(pid_t pid)
{
	static const char *const options[] = { "-i", "--id", "-n", "--name" };
	char path[64], line[4096];
	int number = -1, file;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	file = open(path, O_RDONLY | O_CLOEXEC);
	length = file < 0 ? -1 : read(file, line, sizeof(line) - 1);
	if (file >= 0)
		close(file);
	if (length <= 0)
		return -1;
	line[length] = 0;
	for (char *each = line, *next; each < line + length; each = next) {
		next = each + strlen(each) + 1;
		for (unsigned int i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
			const char *value =
				value_of(each, options[i], next < line + length ? next : "");

			if (value)
				number = number_in(value);
		}
	}
	return number;
}
