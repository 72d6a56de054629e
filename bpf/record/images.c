// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Images that keep what is written to them elsewhere in their file: a line `dev inode format`
 * each, of all that a process has open.  A disk of its own stands for itself (dev), whatever its
 * node is.  The first bytes of a file tell, as they tell QEMU's own tools.  Of qcow2 also where
 * that is (qcow2.c), and a line `dev inode` of each that has a backing file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "record.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const struct format {
	const char *name;
	ssize_t offset, length;
	const char *bytes;
} formats[] = {
	{ "qcow2", 0, 4, "QFI\xfb" },
	{ "qed", 0, 4, "QED\0" },
	{ "vmdk", 0, 4, "KDMV" },
	{ "vhdx", 0, 8, "vhdxfile" },
	{ "vpc", 0, 8, "conectix" }, /* one of a fixed size is raw, and has this at its end */
	{ "parallels", 0, 16, "WithoutFreeSpace" },
	{ "parallels", 0, 16, "WithouFreSpacExt" },
	{ "vdi", 64, 4, "\x7f\x10\xda\xbe" },
};

/* The very file: what a server would not let root open, the process has open.  Since Linux
 * 8649c322f75c ("pid: Implement pidfd_getfd syscall") in v5.6. */
static int borrow(pid_t pid, int descriptor, const char *path)
{
	int process = syscall(SYS_pidfd_open, pid, 0), fd = -1;

	if (process >= 0) {
		fd = syscall(SYS_pidfd_getfd, process, descriptor, 0);
		close(process);
	}
	return fd >= 0 ? fd : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static const struct format *format_of(int fd)
{
	static char begin[BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));
	ssize_t length = pread(fd, begin, sizeof(begin), 0);

	for (unsigned int i = 0; i < COUNT(formats); i++) {
		const struct format *format = &formats[i];

		if (length >= format->offset + format->length &&
		    !memcmp(begin + format->offset, format->bytes, format->length))
			return format;
	}
	return NULL;
}

static void tell(pid_t pid, const char *name, const struct images_out *out)
{
	const struct format *format;
	struct stat status;
	unsigned int dev;
	char path[64];
	dev_t number;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", pid, name);
	/* Nothing else has a place to read from, and asking may change what it is. */
	if (stat(path, &status) || !(S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)))
		return;
	fd = borrow(pid, atoi(name), path);
	if (fd < 0)
		return;
	format = format_of(fd);
	number = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
	dev = major(number) << 20 | minor(number);
	if (format)
		fprintf(out->formats, "%u\t%llu\t%s\n", dev, (unsigned long long)status.st_ino,
			format->name);
	if (format && !strcmp(format->name, "qcow2") &&
	    qcow2_tell(fd, dev, status.st_ino, out->maps))
		fprintf(out->backed, "%u\t%llu\n", dev, (unsigned long long)status.st_ino);
	close(fd);
}

void images_tell(pid_t pid, const struct images_out *out)
{
	struct dirent *entry;
	DIR *descriptors;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	descriptors = opendir(path);
	while (descriptors && (entry = readdir(descriptors))) {
		if (entry->d_name[0] != '.')
			tell(pid, entry->d_name, out);
	}
	if (descriptors)
		closedir(descriptors);
}
