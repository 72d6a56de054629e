// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Virtual machines, as the command line of their QEMU has them: a line `pid name` each in
 * facts/vmms, and of those whose QEMU holds requests back itself in facts/throttled; `-` has no
 * name.  At the recording's beginning and at its end, as machines come and go.  What QEMU was told
 * later (QMP) is not there.  Nothing else of a command line is kept.  Beside them, what of theirs
 * is open: images, also of qemu-nbd and qemu-storage-daemon, and disks that they have as their own
 * (facts/passthrough); and which CPUs their threads may run on (facts/affinity).
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

struct told {
	FILE *names, *throttled, *passthrough, *affinity;
	struct images_out images;
};

static void tell(pid_t pid, void *context)
{
	const struct told *told = context;
	char path[64], name[256] = "";
	bool limited;
	FILE *words;

	images_tell(pid, &told->images);
	passthrough_tell(pid, told->passthrough);
	affinity_tell(pid, told->affinity);
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	words = fopen(path, "re");
	if (!words)
		return;
	limited = read_limits(words, name, sizeof(name));
	fclose(words);
	if (!name[0])
		snprintf(name, sizeof(name), "-");
	fprintf(told->names, "%d\t%s\n", pid, name);
	if (limited)
		fprintf(told->throttled, "%d\t%s\n", pid, name);
}

static void tell_images(pid_t pid, void *context)
{
	const struct told *told = context;

	images_tell(pid, &told->images);
}

static FILE *append(int directory_fd, const char *path)
{
	int fd = openat(directory_fd, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
			0644);

	return fd < 0 ? NULL : fdopen(fd, "a");
}

static int end(FILE *out, int error)
{
	return out && fclose(out) && !error ? -errno : error;
}

int vmms_write(unsigned int asked, int directory_fd)
{
	struct told told;
	int error;

	if (!(asked & (DUTY_BIT(vmm) | DUTY_BIT(qemu_nbd) | DUTY_BIT(storage_daemon))))
		return 0;
	told.names = append(directory_fd, "facts/vmms");
	told.throttled = append(directory_fd, "facts/throttled");
	told.images.formats = append(directory_fd, "facts/images");
	told.images.maps = append(directory_fd, "facts/image_maps");
	told.images.backed = append(directory_fd, "facts/backed");
	told.passthrough = append(directory_fd, "facts/passthrough");
	told.affinity = append(directory_fd, "facts/affinity");
	error = told.names && told.throttled && told.passthrough && told.affinity &&
				told.images.formats && told.images.maps && told.images.backed
			? 0
			: -errno;
	if (!error && asked & DUTY_BIT(vmm))
		error = duties_each(DUTY_vmm, tell, &told);
	if (!error && asked & DUTY_BIT(qemu_nbd))
		error = duties_each(DUTY_qemu_nbd, tell_images, &told);
	if (!error && asked & DUTY_BIT(storage_daemon))
		error = duties_each(DUTY_storage_daemon, tell_images, &told);
	error = end(told.names, end(told.throttled, end(told.passthrough, error)));
	error = end(told.images.formats, end(told.images.maps, end(told.affinity, error)));
	return end(told.images.backed, error);
}
