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

#define DECISION (WATCH_ALLOWED | WATCH_OTHER)

/* What --device says of a device: kept at the device's place in the table of those watched. */
struct decision {
	bool is_made;
	unsigned int bits;           /* of DECISION: one, or none as it is not known */
	unsigned long long sequence; /* of the medium that it is of; 0: of any */
};

static struct decision decisions[WATCH_SETS * WATCH_WAYS];
static unsigned int named_devs[MAX_NAMES];
static unsigned int named_count;

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

/* Where a device is among those watched, -ENOENT: it is none. */
static int place_of(const struct iostrata *skeleton, unsigned int dev)
{
	unsigned int first = DEV_HASH(dev, WATCH_SETS_BITS) * WATCH_WAYS;

	for (unsigned int place = first; dev && place < first + WATCH_WAYS; place++) {
		if (skeleton->bss->watched[place].dev == dev)
			return (int)place;
	}
	return -ENOENT;
}

int devices_allow(const struct iostrata *skeleton, unsigned int dev)
{
	int place = place_of(skeleton, dev);
	unsigned int bits = place < 0 ? 0 : skeleton->bss->watched[place].bits;

	return bits & DECISION ? (bits & WATCH_ALLOWED) != 0 : -ENOENT;
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

#define MAX_PARTS 1024

/* A file system's number, and a device that it is on, too. */
static struct {
	unsigned int dev, device;
} parts[MAX_PARTS];
static unsigned int part_count;

static void add_part(struct iostrata *skeleton, unsigned int dev, unsigned int device)
{
	if (dev == device)
		return;
	for (unsigned int i = 0; i < part_count; i++) {
		if (parts[i].dev == dev && parts[i].device == device)
			return;
	}
	if (part_count == MAX_PARTS) {
		filter_table_full(skeleton, TABLE_DEVICES, dev);
		return;
	}
	parts[part_count].dev = dev;
	parts[part_count++].device = device;
}

static unsigned int add_disk(const struct blocks *blocks, unsigned int device, struct follow *list,
			     unsigned int count, unsigned int room)
{
	unsigned int disk = blocks_disk_of(blocks, device);

	if (!disk || count == room)
		return count;
	list[count++] = (struct follow){ disk, WATCH_DISK };
	count += blocks_below(blocks, device, list + count, room - count);
	return count < room ? count : room;
}

/* All that lies below a device, and below what else the file system of that number is on; sysfs
 * knows the devices of btrfs. */
static unsigned int list_below(const struct blocks *blocks, unsigned int dev, struct follow *list,
			       unsigned int room)
{
	unsigned int count = blocks_below(blocks, dev, list, room);

	for (unsigned int i = 0; i < part_count && count < room; i++) {
		struct follow devices[MAX_BELOW];
		unsigned int device_count = 0;

		if (parts[i].dev != dev)
			continue;
		if (!blocks_find(blocks, dev))
			device_count =
				blocks_btrfs_devices(blocks, parts[i].device, devices, MAX_BELOW);
		if (!device_count)
			devices[device_count++].dev = parts[i].device;
		for (unsigned int j = 0; j < device_count; j++)
			count = add_disk(blocks, devices[j].dev, list, count, room);
	}
	return count;
}

static void follow_dev(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev)
{
	static unsigned int used;
	struct follow list[MAX_BELOW];
	unsigned int count = list_below(blocks, dev, list, MAX_BELOW);
	unsigned int told = count < MAX_BELOW ? count : MAX_BELOW;
	unsigned int kept = told < MAX_FOLLOWS - used ? told : MAX_FOLLOWS - used;
	struct watch *place = count ? watch(skeleton, dev, 0) : NULL;
	struct follow *follows = skeleton->bss->follows;

	if (!place || (place->follow_count == told &&
		       !memcmp(&follows[place->first_follow], list, told * sizeof(*list))))
		return;
	/* What it says is told when the device is met. */
	if (count > kept)
		watch(skeleton, dev, WATCH_CUT);
	memcpy(&follows[used], list, kept * sizeof(*list));
	place->first_follow = used;
	place->follow_count = kept;
	used += kept;
	for (unsigned int i = 0; place->bits & (WATCH_DISK | WATCH_FS) && i < kept; i++)
		must_watch(skeleton, list[i].dev, list[i].bits);
}

/* What lies below each device and file system, for BPF to follow when it meets one; what it has met
 * already is followed at once.  Of a file system only the kernel's own threads may write to some of
 * its devices: XFS's log, all of btrfs's. */
static void follow(struct iostrata *skeleton, const struct blocks *blocks)
{
	for (unsigned int i = 0; i < blocks->count; i++)
		follow_dev(skeleton, blocks, blocks->list[i].dev);
	for (unsigned int i = 0; i < part_count; i++) {
		if (!blocks_find(blocks, parts[i].dev))
			follow_dev(skeleton, blocks, parts[i].dev);
	}
}

/* What each file system is on; and what sync(2) waits for: those that are on disks, and their disks. */
static void is_mounted(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev,
		       unsigned int device)
{
	unsigned int disk = blocks_disk_of(blocks, device);

	add_part(skeleton, dev, device);
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

/* bits: WATCH_ALLOWED, WATCH_OTHER or, where it is not known, none. */
static void decide(struct iostrata *skeleton, unsigned int dev, unsigned int bits,
		   unsigned long long sequence)
{
	struct decision *decision;
	int place;

	if (bits && !watch(skeleton, dev, 0) && bits == WATCH_ALLOWED)
		filter_table_full(skeleton, TABLE_DEVICES, dev);
	place = place_of(skeleton, dev);
	if (place < 0)
		return;
	decision = &decisions[place];
	/* What is allowed for one reason is so, whatever else is said of it. */
	if (decision->is_made && decision->bits & WATCH_ALLOWED)
		return;
	*decision = (struct decision){ .is_made = true, .bits = bits, .sequence = sequence };
}

/* As it is decided now: what was before is not asked but of the numbers that no device has, of which
 * BPF may have decided. */
static bool allowed(const struct iostrata *skeleton, unsigned int dev)
{
	int place = place_of(skeleton, dev);

	if (place >= 0 && decisions[place].is_made)
		return decisions[place].bits & WATCH_ALLOWED;
	return !(dev >> 20) && devices_allow(skeleton, dev) > 0;
}

static bool is_named(unsigned int dev)
{
	for (unsigned int i = 0; i < named_count; i++) {
		if (named_devs[i] == dev)
			return true;
	}
	return false;
}

/* What is named is so with whatever medium, and with it its partitions; 0: that, or not told. */
static unsigned long long sequence_of(const struct blocks *blocks, const struct block *block)
{
	const struct block *disk = blocks_find(blocks, blocks_disk_of(blocks, block->dev));

	return !disk || is_named(disk->dev) ? 0 : disk->sequence;
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

/* A loop device is on nobody knows what while it has no file, or is just being given one. */
static bool lies_on_unknown(const struct block *block)
{
	return block->empty ||
	       (block->dev >> 20 == LOOP_MAJOR && !block->parent_dev && !block->lower_count);
}

/* A whole disk stands for its partitions, and any device for those that are stacked on it.  What is
 * known to be elsewhere is told from what is not known. */
static void decide_block(struct iostrata *skeleton, const struct blocks *blocks,
			 const struct block *block)
{
	unsigned long long sequence = sequence_of(blocks, block);

	if (lies_on_unknown(block))
		decide(skeleton, block->dev, 0, sequence);
	else if (lies_on_allowed(skeleton, blocks, block))
		decide(skeleton, block->dev, WATCH_ALLOWED, sequence);
	else
		decide(skeleton, block->dev, WATCH_OTHER, sequence);
}

static bool mounted_is_allowed(const struct iostrata *skeleton, const struct blocks *blocks,
			       unsigned int device)
{
	bool is_allowed = allowed(skeleton, device);
	struct follow list[MAX_BELOW];
	unsigned int count = blocks_btrfs_devices(blocks, device, list, MAX_BELOW);

	for (unsigned int i = 0; i < count; i++)
		is_allowed |= allowed(skeleton, list[i].dev);
	return is_allowed;
}

/* A file system of several devices is on each of them; sysfs knows those of btrfs. */
static void decide_mounted(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev,
			   unsigned int device)
{
	const struct block *block = blocks_find(blocks, dev);

	if (dev == device)
		return;
	if (mounted_is_allowed(skeleton, blocks, device))
		decide(skeleton, dev, WATCH_ALLOWED, block ? sequence_of(blocks, block) : 0);
	else if (!block)
		decide(skeleton, dev, WATCH_OTHER, 0);
}

static void decide_all(struct iostrata *skeleton, const struct blocks *blocks)
{
	memset(decisions, 0, sizeof(decisions));
	for (unsigned int i = 0; i < named_count; i++)
		decide(skeleton, named_devs[i], WATCH_ALLOWED, 0);
	/* First those with a number of their own, of which nothing is to be left of what was; twice:
	 * a loop device's file may be on such a file system. */
	each_mounted(skeleton, blocks, decide_mounted);
	for (unsigned int pass = 0; pass < 2; pass++) {
		for (unsigned int i = 0; i < blocks->count; i++)
			decide_block(skeleton, blocks, &blocks->list[i]);
		each_mounted(skeleton, blocks, decide_mounted);
	}
}

/* BPF looks at the medium first: of another than either it takes neither decision. */
static void tell_decision(struct watch *watch, unsigned long long *medium,
			  const struct decision *decision)
{
	unsigned int over = DECISION;

	if ((watch->bits & DECISION) == decision->bits && *medium == decision->sequence)
		return;
	/* What was recorded of what it was before is not asked for any more. */
	if (decision->bits != WATCH_ALLOWED &&
	    (watch->bits & WATCH_ALLOWED || (*medium && *medium != decision->sequence)))
		over |= WATCH_DISK | WATCH_FS;
	__atomic_store_n(medium, MEDIUM_NONE, __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&watch->bits, ~over, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&watch->bits, decision->bits, __ATOMIC_SEQ_CST);
	__atomic_store_n(medium, decision->sequence, __ATOMIC_SEQ_CST);
}

/* All that is allowed, with what is below it. */
static void watch_block(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev)
{
	must_watch(skeleton, dev, WATCH_FS);
	watch_disks(skeleton, blocks, dev);
}

static void watch_mounted(struct iostrata *skeleton, const struct blocks *blocks, unsigned int dev,
			  unsigned int device)
{
	struct follow list[MAX_BELOW];
	unsigned int count;

	if (dev == device || !allowed(skeleton, dev))
		return;
	must_watch(skeleton, dev, WATCH_FS);
	count = list_below(blocks, dev, list, MAX_BELOW);
	for (unsigned int i = 0; i < count; i++)
		must_watch(skeleton, list[i].dev, list[i].bits);
}

static void allow(struct iostrata *skeleton, const struct blocks *blocks)
{
	struct iostrata__bss *bss = skeleton->bss;

	decide_all(skeleton, blocks);
	for (unsigned int i = 0; i < WATCH_SETS * WATCH_WAYS; i++) {
		if (decisions[i].is_made)
			tell_decision(&bss->watched[i], &bss->watched_media[i], &decisions[i]);
	}
	for (unsigned int i = 0; i < named_count; i++)
		watch_block(skeleton, blocks, named_devs[i]);
	for (unsigned int i = 0; i < blocks->count; i++) {
		if (allowed(skeleton, blocks->list[i].dev))
			watch_block(skeleton, blocks, blocks->list[i].dev);
	}
	each_mounted(skeleton, blocks, watch_mounted);
}

void devices_follow(struct iostrata *skeleton, const struct blocks *blocks)
{
	part_count = 0;
	each_mounted(skeleton, blocks, is_mounted);
	follow(skeleton, blocks);
	if (named_count)
		allow(skeleton, blocks);
}

int devices_begin(struct iostrata *skeleton, const struct options *options,
		  const struct blocks *blocks)
{
	for (unsigned int i = 0; i < options->device_count; i++) {
		int error = device_of(options->devices[i], &named_devs[i]);

		if (error)
			return error;
	}
	named_count = options->device_count;
	devices_follow(skeleton, blocks);
	return 0;
}
