// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What was asked for -> what the BPF programs compare with. */
#include <dirent.h>
#include <errno.h>
#include <linux/major.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "record.h"
#include "iostrata.skel.h"

#define DEPTH 64 /* of a process tree */

/* A path below the version 2 hierarchy; its level is its depth there. */
static int cgroup_filter(struct cgroup_filter *filter, const char *name)
{
	static const char *const roots[] = { CGROUP_ROOT, CGROUP_ROOT "/unified" };
	char path[PATH_MAX], procs[PATH_MAX + 32];
	struct stat status;

	for (unsigned int i = 0; i < 2; i++) {
		const char *root = roots[1 - i];
		const char *below = strncmp(name, root, strlen(root)) ? name : name + strlen(root);

		snprintf(path, sizeof(path), "%s/%s", root, below);
		snprintf(procs, sizeof(procs), "%s/cgroup.controllers", path);
		if (access(procs, F_OK) || stat(path, &status))
			continue;
		filter->id = status.st_ino;
		filter->level = 0;
		for (const char *c = below; *c; c++) {
			if (*c != '/' && (c == below || c[-1] == '/'))
				filter->level++;
		}
		return 0;
	}
	fail("--cgroup %s: no such cgroup of version 2 below " CGROUP_ROOT, name);
	return -ENOENT;
}

int filter_fill(struct filter *filter, const struct options *options)
{
	*filter = (struct filter){
		.tree = options->pid_count ||
			(!options->comm_count && !options->cgroup_count && !options->all),
		.device = options->device_count > 0,
		.comm_count = options->comm_count,
		.cgroup_count = options->cgroup_count,
		.own_tgid = getpid(),
		.why = options->why,
		.who = options->who,
		.detail = options->detail,
		.names = !options->no_names,
		.reads = options->reads,
	};
	memcpy(filter->ports, options->ports, sizeof(filter->ports));
	duties_tell(options->duties, filter);
	/* What it takes to look at a program that comes later is kept for those who serve guests. */
	filter->library = options->duties & DUTY_BIT(workload) && options->duties & DUTY_BIT(vmm);
	if (filter->library)
		filter->process_kinds |= 1u << THREAD_LIBRBD;
	if (fuse_is_served(options))
		filter->process_kinds |= 1u << THREAD_FUSE;
	for (unsigned int i = 0; i < options->comm_count; i++)
		strncpy(filter->comms[i], options->comms[i], sizeof(filter->comms[i]) - 1);
	for (unsigned int i = 0; i < options->cgroup_count; i++) {
		int error = cgroup_filter(&filter->cgroups[i], options->cgroups[i]);

		if (error)
			return error;
	}
	return 0;
}

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

static void table_full(struct iostrata *skeleton, enum table table, unsigned int what)
{
	struct full *full = &skeleton->bss->full[table];

	__atomic_fetch_add(&full->count, 1, __ATOMIC_RELAXED);
	full->last = what;
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
		table_full(skeleton, TABLE_DEVICES, dev);
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

int filter_allows(const struct iostrata *skeleton, unsigned int dev)
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
	return filter_allows(skeleton, dev) > 0;
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
		table_full(skeleton, TABLE_DEVICES, dev);
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

void filter_follow(struct iostrata *skeleton, const struct options *options,
		   const struct blocks *blocks)
{
	follow(skeleton, blocks);
	each_mounted(skeleton, blocks, is_mounted);
	/* Twice: a loop device's file may be on such a file system. */
	for (unsigned int i = 0; options->device_count && i < 2; i++)
		allow_above(skeleton, blocks);
}

int filter_devices(struct iostrata *skeleton, const struct options *options,
		   const struct blocks *blocks)
{
	for (unsigned int i = 0; i < options->device_count; i++) {
		unsigned int dev;
		int error = device_of(options->devices[i], &dev);

		if (error)
			return error;
		allow(skeleton, blocks, dev);
	}
	filter_follow(skeleton, options, blocks);
	return 0;
}

int filter_find_thread(const struct iostrata *skeleton, pid_t tid)
{
	unsigned int first = (tid & (THREAD_SETS - 1)) * THREAD_WAYS;

	for (unsigned int place = first; place < first + THREAD_WAYS; place++) {
		if (skeleton->bss->thread_owner[place] == (unsigned int)tid)
			return (int)place;
	}
	return -ENOENT;
}

/* As thread_add() in BPF, and safe beside it. */
int filter_add_thread(struct iostrata *skeleton, struct thread *threads, pid_t tid, pid_t tgid,
		      unsigned int kind)
{
	unsigned int first = (tid & (THREAD_SETS - 1)) * THREAD_WAYS;

	if (filter_find_thread(skeleton, tid) >= 0)
		return 0;
	for (unsigned int way = 0; way < THREAD_WAYS; way++) {
		unsigned int none = 0;

		if (!__atomic_compare_exchange_n(&skeleton->bss->thread_owner[first + way], &none,
						 tid, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			continue;
		threads[first + way].tgid = tgid;
		threads[first + way].kind = kind;
		return 0;
	}
	table_full(skeleton, TABLE_THREADS, tid);
	return -ENOSPC;
}

/* All threads of a process, and of its descendants down to a depth. */
int filter_add_process(struct iostrata *skeleton, struct thread *threads, pid_t pid,
		       unsigned int kind, unsigned int depth)
{
	struct dirent *entry;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	if (!tasks)
		return -errno;
	while ((entry = readdir(tasks))) {
		pid_t tid = atoi(entry->d_name), child;
		char children[128];
		FILE *list;

		if (tid <= 0)
			continue;
		if (filter_add_thread(skeleton, threads, tid, pid, kind))
			warn("too many threads: thread %d is not recorded", tid);
		snprintf(children, sizeof(children), "/proc/%d/task/%d/children", pid, tid);
		list = depth ? fopen(children, "re") : NULL;
		while (list && fscanf(list, "%d", &child) == 1)
			filter_add_process(skeleton, threads, child, kind, depth - 1);
		if (list)
			fclose(list);
	}
	closedir(tasks);
	return 0;
}

/* Twice: what the first pass missed while it was being born, the second finds. */
int filter_add_processes(struct iostrata *skeleton, struct thread *threads,
			 const struct options *options)
{
	for (unsigned int i = 0; i < options->pid_count; i++) {
		int error = filter_add_process(skeleton, threads, options->pids[i], 0, DEPTH);

		if (error) {
			fail("--pid %d: %s", options->pids[i],
			     error == -ENOENT ? "no such process" : strerror(-error));
			return error;
		}
		filter_add_process(skeleton, threads, options->pids[i], 0, DEPTH);
	}
	return 0;
}
