// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * KVM's own account of each virtual CPU's time stamp counter, which ties the clocks of
 * guest and host: a line `pid vcpu offset ratio` each in facts/tsc, at the recording's
 * beginning and at its end, as machines come and a counter may be set.  No file where
 * KVM says nothing (no virtual machine, or debugfs is not mounted).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

#define KVM "/sys/kernel/debug/kvm"

/* One value; '-' when there is none. */
static void read_value(const char *machine, const char *vcpu, const char *name, char *text,
		       int size)
{
	char path[800];
	FILE *in;

	snprintf(text, size, "-");
	snprintf(path, sizeof(path), KVM "/%s/%s/%s", machine, vcpu, name);
	in = fopen(path, "re");
	if (in && fgets(text, size, in))
		text[strcspn(text, "\n")] = 0;
	if (in)
		fclose(in);
}

static FILE *append(int directory_fd)
{
	int fd = openat(directory_fd, "facts/tsc",
			O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);

	return fd < 0 ? NULL : fdopen(fd, "a");
}

static void write_vcpu(FILE **out, int directory_fd, const char *machine, const char *vcpu)
{
	char offset[32], ratio[32];

	read_value(machine, vcpu, "tsc-offset", offset, sizeof(offset));
	read_value(machine, vcpu, "tsc-scaling-ratio", ratio, sizeof(ratio));
	if (!strcmp(offset, "-"))
		return;
	if (!*out)
		*out = append(directory_fd);
	if (*out)
		fprintf(*out, "%d %d %s %s\n", atoi(machine), atoi(vcpu + strlen("vcpu")), offset,
			ratio);
}

/* A machine's directory is named by its process and descriptor: PID-FD. */
static void write_machine(FILE **out, int directory_fd, const char *machine)
{
	struct dirent *entry;
	char path[512];
	DIR *vcpus;

	snprintf(path, sizeof(path), KVM "/%s", machine);
	vcpus = opendir(path);
	while (vcpus && (entry = readdir(vcpus))) {
		if (!strncmp(entry->d_name, "vcpu", strlen("vcpu")))
			write_vcpu(out, directory_fd, machine, entry->d_name);
	}
	if (vcpus)
		closedir(vcpus);
}

int tsc_write(int directory_fd)
{
	DIR *machines = opendir(KVM);
	struct dirent *entry;
	FILE *out = NULL;

	while (machines && (entry = readdir(machines))) {
		if (atoi(entry->d_name) > 0)
			write_machine(&out, directory_fd, entry->d_name);
	}
	if (machines)
		closedir(machines);
	return out && fclose(out) ? -errno : 0;
}
