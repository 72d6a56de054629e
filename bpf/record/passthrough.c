// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Disks' controllers that a virtual machine has as its own (VFIO): a line `pid address id irqs`
 * each, with what the device is (vendor:device) and the numbers of its interrupts.  A process that
 * has one holds its group open (/dev/vfio/7), or the device itself (/dev/vfio/devices/vfio0, from
 * v6.6 on).
 */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define PCI "/sys/bus/pci/devices"
#define GROUP "/dev/vfio/"
#define DEVICE "/dev/vfio/devices/"
#define MASS_STORAGE 0x01 /* the class's first byte */

static bool is_storage(const char *device)
{
	char path[PATH_MAX];
	unsigned int class = 0;
	FILE *in;

	snprintf(path, sizeof(path), "%.4000s/class", device);
	in = fopen(path, "re");
	if (in && fscanf(in, "%x", &class) != 1)
		class = 0;
	if (in)
		fclose(in);
	return class >> 16 == MASS_STORAGE;
}

static void tell_device(pid_t pid, const char *address, FILE *out)
{
	const char *before = "\t";
	char device[PATH_MAX], path[PATH_MAX], id[16];
	struct dirent *irq;
	DIR *irqs;

	snprintf(device, sizeof(device), PCI "/%.255s", address);
	if (!is_storage(device) || !read_pci_id(device, id, sizeof(id)))
		return;
	fprintf(out, "%d\t%s\t%s", pid, address, id);
	snprintf(path, sizeof(path), "%.4000s/msi_irqs", device);
	irqs = opendir(path);
	while (irqs && (irq = readdir(irqs))) {
		if (irq->d_name[0] == '.')
			continue;
		fprintf(out, "%s%s", before, irq->d_name);
		before = ",";
	}
	if (irqs)
		closedir(irqs);
	fprintf(out, "%s\n", *before == '\t' ? "\t" : "");
}

static void tell_group(pid_t pid, const char *group, FILE *out)
{
	struct dirent *device;
	char path[PATH_MAX];
	DIR *devices;

	snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/%.16s/devices", group);
	devices = opendir(path);
	while (devices && (device = readdir(devices))) {
		if (device->d_name[0] != '.')
			tell_device(pid, device->d_name, out);
	}
	if (devices)
		closedir(devices);
}

static void tell_held(pid_t pid, const char *held, FILE *out)
{
	char path[PATH_MAX], place[PATH_MAX];

	if (!strncmp(held, DEVICE, strlen(DEVICE))) {
		snprintf(path, sizeof(path), "/sys/class/vfio-dev/%.32s/device",
			 held + strlen(DEVICE));
		if (realpath(path, place))
			tell_device(pid, strrchr(place, '/') + 1, out);
	} else if (!strncmp(held, GROUP, strlen(GROUP)))
		tell_group(pid, held + strlen(GROUP), out);
}

void passthrough_tell(pid_t pid, FILE *out)
{
	struct dirent *entry;
	char path[PATH_MAX], held[PATH_MAX];
	DIR *descriptors;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	descriptors = opendir(path);
	while (descriptors && (entry = readdir(descriptors))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", pid, entry->d_name);
		length = readlink(path, held, sizeof(held) - 1);
		if (length < 0)
			continue;
		held[length] = 0;
		tell_held(pid, held, out);
	}
	if (descriptors)
		closedir(descriptors);
}
