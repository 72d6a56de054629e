// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The devices of this machine -> what the BPF programs know of each: whether --device allows it,
 * what lies below it, and what is mounted from it. */
#include <errno.h>
#include <limits.h>
#include <linux/major.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <bpf/libbpf.h>

#include "record.h"
#include "iostrata.skel.h"

static int device_of(const char *name, unsigned int *dev)
{
	char path[PATH_MAX], major_text[8], minor_text[8], end;
	unsigned int major_number, minor_number;
	struct stat status;

	if (sscanf(name, "%7[0-9]:%7[0-9]%c", major_text, minor_text, &end) == 2) {
		major_number = strtoul(major_text, NULL, 10);
		minor_number = strtoul(minor_text, NULL, 10);
		if (major_number >= 1u << 12 || minor_number >= 1u << 20) {
			fail("--device %s: no device has such a number", name);
			return -ENODEV;
		}
		*dev = major_number << 20 | minor_number;
		return 0;
	}
	/* A name without a directory is first of all the kernel's own. */
	snprintf(path, sizeof(path), "/dev/%s", name);
	if ((strchr(name, '/') || stat(path, &status) || !S_ISBLK(status.st_mode)) &&
	    (stat(name, &status) || !S_ISBLK(status.st_mode))) {
		fail("--device %s: no block device; give a path like /dev/vda or MAJ:MIN", name);
		return -ENODEV;
	}
	*dev = major(status.st_rdev) << 20 | minor(status.st_rdev);
	return 0;
}

/* As watch_mark() in BPF, and safe beside it; NULL: there is no room. */
static struct watch *watch(struct iostrata *skeleton, unsigned int dev, unsigned int bits)
{
	unsigned int first = DEV_HASH(dev, WATCH_SETS_BITS) * WATCH_WAYS;

	for (unsigned int way = 0; way < WATCH_WAYS; way++) {
		struct watch *place = &skeleton->bss->watched[first + way];

		if (place->dev != dev && !__sync_bool_compare_and_swap(&place->dev, 0, dev))
			continue;
		__atomic_fetch_or(&place->bits, bits, __ATOMIC_RELAXED);
		skeleton->bss->watched_loops |= bits & WATCH_DISK && dev >> 20 == LOOP_MAJOR;
		return place;
	}
	return NULL;
}

static void must_watch(struct iostrata *skeleton, unsigned int dev, unsigned int bits)
{
	if (!watch(skeleton, dev, bits))
		filter_table_full(skeleton, TABLE_DEVICES, dev);
}

/* What lies below each device, for BPF to follow when it meets the device; what it has met already
 * is followed at once. */
static void follow(struct iostrata *skeleton, const struct blocks *blocks)
{
	static unsigned int used;

	for (unsigned int i = 0; i < blocks->count; i++) {
		unsigned int dev = blocks->list[i].dev;
		struct follow list[MAX_BELOW];
		unsigned int count = blocks_below(blocks, dev, list, MAX_BELOW);
		unsigned int told = count < MAX_BELOW ? count : MAX_BELOW;
		unsigned int kept = told < MAX_FOLLOWS - used ? told : MAX_FOLLOWS - used;
		struct watch *place = count ? watch(skeleton, dev, 0) : NULL;
		struct follow *follows = skeleton->bss->follows;

		if (!place || (place->follow_count == told &&
			       !memcmp(&follows[place->first_follow], list, told * sizeof(*list))))
			continue;
		/* What it says is told when the device is met. */
		if (count > kept)
			watch(skeleton, dev, WATCH_CUT);
		memcpy(&follows[used], list, kept * sizeof(*list));
		place->first_follow = used;
		place->follow_count = kept;
		used += kept;
		for (unsigned int j = 0; place->bits & (WATCH_DISK | WATCH_FS) && j < kept; j++)
			must_watch(skeleton, list[j].dev, list[j].bits);
	}
}

int devices_allow(const struct iostrata *skeleton, unsigned int dev)
{
	unsigned int first = DEV_HASH(dev, WATCH_SETS_BITS) * WATCH_WAYS;

	for (unsigned int way = 0; dev && way < WATCH_WAYS; way++) {
		const struct watch *place = &skeleton->bss->watched[first + way];

		if (place->dev == dev && place->bits & (WATCH_ALLOWED | WATCH_OTHER))
			return (place->bits & WATCH_ALLOWED) != 0;
	}
	return -ENOENT;
}

static bool allowed(const struct iostrata *skeleton, unsigned int dev)
{
	return devices_allow(skeleton, dev) > 0;
}

static void add_mounted(struct iostrata *skeleton, unsigned int dev, unsigned int bits)
{
	for (unsigned int i = 0; dev && i < MAX_MOUNTED; i++) {
		struct follow *place = &skeleton->bss->mounted[i];

		if (place->dev && place->dev != dev)
			continue;
		*place = (struct follow){ dev, place->bits | bits };
		return;
	}
}

typedef void mounted_call(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev,
			  unsigned int device);

/* The device that an option of a mount names, 0: none. */
static unsigned int named_device(const char *options, const char *option)
{
	const char *at = strstr(options, option);
	struct stat status;
	char path[1024];

	if (!at || sscanf(at + strlen(option), "%1023[^, \n]", path) != 1 || stat(path, &status) ||
	    !S_ISBLK(status.st_mode))
		return 0;
	return major(status.st_rdev) << 20 | minor(status.st_rdev);
}

/* Each file system that is on a device of this machine: its number and the device's, which are
 * two where it may have several devices (btrfs); XFS's with each of its own. */
static void each_mounted(struct iostrata *skeleton, const struct blocks *blocks, mounted_call *call)
{
	static const char *const of_xfs[] = { ",logdev=", ",rtdev=" };
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	unsigned int major_number, minor_number;
	char line[4096], source[1024];

	while (mounts && fgets(line, sizeof(line), mounts)) {
		const char *kind = strstr(line, " - ");
		unsigned int dev, device;
		struct stat status;

		if (sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) != 2 || !kind)
			continue;
		dev = device = major_number << 20 | minor_number;
		if (!blocks_disk_of(blocks, device)) {
			if (sscanf(kind, " - %*s %1023s", source) != 1 || stat(source, &status) ||
			    !S_ISBLK(status.st_mode))
				continue;
			device = major(status.st_rdev) << 20 | minor(status.st_rdev);
		}
		call(skeleton, blocks, dev, device);
		for (unsigned int i = 0; i < sizeof(of_xfs) / sizeof(of_xfs[0]); i++) {
			device = named_device(kind, of_xfs[i]);
			if (device)
				call(skeleton, blocks, dev, device);
		}
	}
	if (mounts)
		fclose(mounts);
}

/* What sync(2) waits for: the file systems that are on disks, and their disks. */
static void is_mounted(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev,
		       unsigned int device)
{
	unsigned int disk = blocks_disk_of(blocks, device);

	if (!disk)
		return;
	add_mounted(skeleton, dev, WATCH_FS);
	add_mounted(skeleton, disk, WATCH_DISK);
}

/* A partition's requests are its disk's, and those of what is below it. */
static void watch_disks(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev)
{
	unsigned int disk = blocks_disk_of(blocks, dev);
	struct follow list[MAX_BELOW];
	unsigned int count = blocks_below(blocks, dev, list, MAX_BELOW);

	must_watch(skeleton, disk ? disk : dev, WATCH_DISK);
	for (unsigned int i = 0; i < count && i < MAX_BELOW; i++)
		must_watch(skeleton, list[i].dev, list[i].bits);
	if (count > MAX_BELOW)
		filter_table_full(skeleton, TABLE_DEVICES, dev);
}

/* A file system of several devices is on each of them; sysfs knows those of btrfs. */
static void allow_mounted(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev,
			  unsigned int device)
{
	bool is_allowed = dev != device && allowed(skeleton, device);
	struct follow list[MAX_BELOW];
	unsigned int count;

	if (dev == device)
		return;
	if (allowed(skeleton, dev))
		watch_disks(skeleton, blocks, device);
	count = blocks_btrfs_devices(blocks, device, list, MAX_BELOW);
	for (unsigned int i = 0; i < count; i++)
		is_allowed |= allowed(skeleton, list[i].dev);
	must_watch(skeleton, dev, is_allowed ? WATCH_ALLOWED | WATCH_FS : WATCH_OTHER);
	for (unsigned int i = 0; is_allowed && i < count; i++)
		must_watch(skeleton, blocks_disk_of(blocks, list[i].dev), WATCH_DISK);
	if (is_allowed && blocks_disk_of(blocks, dev))
		watch_disks(skeleton, blocks, dev);
}

static void allow(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev)
{
	must_watch(skeleton, dev, WATCH_ALLOWED | WATCH_FS);
	watch_disks(skeleton, blocks, dev);
}

static bool lies_on_allowed(const struct iostrata *skeleton, const struct blocks *blocks,
			    const struct block *block)
{
	struct follow list[MAX_BELOW];
	unsigned int count = blocks_below(blocks, block->dev, list, MAX_BELOW);
	bool found = allowed(skeleton, block->parent_dev);

	for (unsigned int i = 0; i < count && i < MAX_BELOW; i++)
		found |= allowed(skeleton, list[i].dev);
	return found;
}

/* A whole disk stands for its partitions, and any device for those that are stacked on it, and
 * for the file systems on those.  What is known to be elsewhere is told from what is not known, as
 * of a device that has no medium yet. */
static void allow_above(struct iostrata *skeleton, const struct blocks *blocks)
{
	for (unsigned int i = 0; i < blocks->count; i++) {
		const struct block *block = &blocks->list[i];

		if (lies_on_allowed(skeleton, blocks, block))
			allow(skeleton, blocks, block->dev);
		else if (!block->empty)
			watch(skeleton, block->dev, WATCH_OTHER);
	}
	each_mounted(skeleton, blocks, allow_mounted);
}

void devices_follow(struct iostrata *skeleton, const struct options *options,
		    const struct blocks *blocks)
{
	follow(skeleton, blocks);
	each_mounted(skeleton, blocks, is_mounted);
	/* Twice: a loop device's file may be on such a file system. */
	for (unsigned int i = 0; options->device_count && i < 2; i++)
		allow_above(skeleton, blocks);
}

int devices_begin(struct iostrata *skeleton, const struct options *options,
		  const struct blocks *blocks)
{
	for (unsigned int i = 0; i < options->device_count; i++) {
		unsigned int dev;
		int error = device_of(options->devices[i], &dev);

		if (error)
			return error;
		allow(skeleton, blocks, dev);
	}
	devices_follow(skeleton, options, blocks);
	return 0;
}
