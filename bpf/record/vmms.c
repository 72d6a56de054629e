// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Virtual machines whose QEMU holds requests back itself, as its command line says: a line
 * `pid name` each in facts/throttled, at the recording's beginning and at its end, as
 * machines come and go; `-` has no name.  What QEMU was told later (QMP) is not there.
 * Nothing else of a command line is kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Whether this is how a limit goes on, and it is none of 0: -total=50, or of JSON "-total":50 */
static bool is_set(const char *rest)
{
	static const char *const parts[] = { "", "-total", "-read", "-write", "_rd", "_wr" };

	for (unsigned int i = 0; i < COUNT(parts); i++) {
		const char *value = rest + strlen(parts[i]);

		if (strncmp(rest, parts[i], strlen(parts[i])))
			continue;
		value += strspn(value, "\" ");
		if ((*value == '=' || *value == ':') && strtoull(value + 1, NULL, 10))
			return true;
	}
	return false;
}

/* throttling.iops-total=50, bps_wr=1M, "iops-read":50, but not throttling.iops-size=4096 */
static bool is_limited(const char *word)
{
	static const char *const limits[] = { "iops", "bps" };

	for (unsigned int i = 0; i < COUNT(limits); i++) {
		const char *at = word;

		while ((at = strstr(at, limits[i]))) {
			at += strlen(limits[i]);
			if (is_set(at))
				return true;
		}
	}
	return false;
}

static bool is_option(const char *word, const char *name)
{
	return word[0] == '-' && !strcmp(word + 1 + (word[1] == '-'), name);
}

static bool may_limit(const char *option)
{
	static const char *const options[] = { "drive", "blockdev", "object" };

	for (unsigned int i = 0; i < COUNT(options); i++) {
		if (is_option(option, options[i]))
			return true;
	}
	return false;
}

/* guest=vm1,debug-threads=on -> vm1 */
static void read_name(const char *word, char *name, size_t size)
{
	const char *guest = strstr(word, "guest=");

	snprintf(name, size, "%s", guest ? guest + strlen("guest=") : word);
	name[strcspn(name, ",\t\n")] = 0;
}

/* Whether any of its disks is limited; its name, if it has one. */
static bool read_limits(FILE *words, char *name, size_t size)
{
	char *word = NULL, *option = NULL;
	bool limited = false;
	size_t room = 0;

	while (getdelim(&word, &room, 0, words) > 0) {
		if (option && is_option(option, "name"))
			read_name(word, name, size);
		else if (option && may_limit(option))
			limited |= is_limited(word);
		free(option);
		option = word;
		word = NULL;
		room = 0;
	}
	free(option);
	free(word);
	return limited;
}

static void write_limited(pid_t pid, void *context)
{
	char path[64], name[256] = "";
	FILE *words;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	words = fopen(path, "re");
	if (!words)
		return;
	if (read_limits(words, name, sizeof(name)))
		fprintf(context, "%d\t%s\n", pid, name[0] ? name : "-");
	fclose(words);
}

int vmms_write(unsigned int asked, int directory_fd)
{
	int error, fd;
	FILE *out;

	if (!(asked & DUTY_BIT(vmm)))
		return 0;
	fd = openat(directory_fd, "facts/throttled",
		    O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
	out = fd < 0 ? NULL : fdopen(fd, "a");
	if (!out)
		return -errno;
	error = duties_each(DUTY_vmm, write_limited, out);
	return fclose(out) ? -errno : error;
}
