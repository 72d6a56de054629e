// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The machine's block devices, from sysfs, and what lies below what. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "record.h"

#define SYS_BLOCK "/sys/class/block"

static unsigned int kernel_dev(unsigned int major_number, unsigned int minor_number)
{
	return major_number << 20 | minor_number;
}

/* One line of a sysfs file, '-' when there is none. */
static void read_fact(const char *name, const char *file, char *text, size_t size)
{
	char path[512];
	FILE *in;

	snprintf(text, size, "-");
	snprintf(path, sizeof(path), SYS_BLOCK "/%s/%s", name, file);
	in = fopen(path, "re");
	if (!in)
		return;
	if (fgets(text, size, in))
		text[strcspn(text, "\n")] = 0;
	for (char *c = text; *c; c++) {
		if (*c == '\t')
			*c = ' ';
	}
	if (!text[0])
		snprintf(text, size, "-");
	fclose(in);
}

static unsigned int read_dev(const char *name, const char *file)
{
	unsigned int major_number, minor_number;
	char text[32];

	read_fact(name, file, text, sizeof(text));
	if (sscanf(text, "%u:%u", &major_number, &minor_number) != 2)
		return 0;
	return kernel_dev(major_number, minor_number);
}

/* "none [mq-deadline] kyber" -> "mq-deadline" */
static void only_bracketed(char *text)
{
	char *begin = strchr(text, '[');
	char *end = begin ? strchr(begin, ']') : NULL;

	if (!end)
		return;
	*end = 0;
	memmove(text, begin + 1, strlen(begin + 1) + 1);
}

static void add_lower(struct block *block, unsigned int dev)
{
	if (dev && block->lower_count < sizeof(block->lower_devs) / sizeof(block->lower_devs[0]))
		block->lower_devs[block->lower_count++] = dev;
}

/* What stat(2) says of a loop device's file.  The driver knows the very file that it has, by
 * whatever name, or none any more; who may not ask it has the name only. */
static bool backing_stat(const struct block *block, dev_t *dev, dev_t *rdev, ino_t *inode)
{
	struct loop_info64 info;
	struct stat backing;
	char path[80];
	int fd, told;

	if (block->backing[0] != '/')
		return false;
	snprintf(path, sizeof(path), "/dev/%s", block->name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		told = !fstat(fd, &backing) &&
		       kernel_dev(major(backing.st_rdev), minor(backing.st_rdev)) == block->dev &&
		       !ioctl(fd, LOOP_GET_STATUS64, &info);
		close(fd);
		if (told) {
			*dev = info.lo_device;
			*rdev = info.lo_rdevice;
			*inode = info.lo_inode;
			return true;
		}
	}
	if (stat(block->backing, &backing))
		return false;
	*dev = backing.st_dev;
	*rdev = backing.st_rdev;
	*inode = backing.st_ino;
	return true;
}

static void read_lower_devs(struct block *block)
{
	struct dirent *entry;
	dev_t dev, rdev;
	char path[512];
	DIR *slaves;
	ino_t inode;

	if (backing_stat(block, &dev, &rdev, &inode)) {
		add_lower(block, rdev ? kernel_dev(major(rdev), minor(rdev))
				      : kernel_dev(major(dev), minor(dev)));
		if (!rdev)
			block->backing_inode = inode;
	}
	snprintf(path, sizeof(path), SYS_BLOCK "/%s/slaves", block->name);
	slaves = opendir(path);
	if (!slaves)
		return;
	while ((entry = readdir(slaves))) {
		if (entry->d_name[0] != '.')
			add_lower(block, read_dev(entry->d_name, "dev"));
	}
	closedir(slaves);
}

/* Of a disk of several paths, what one of its controllers says. */
static void read_path_transport(struct block *block)
{
	char path[512], file[320];
	struct dirent *entry;
	DIR *subsystem;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/device", block->name);
	subsystem = opendir(path);
	while (subsystem && !strcmp(block->transport, "-") && (entry = readdir(subsystem))) {
		snprintf(file, sizeof(file), "device/%s/transport", entry->d_name);
		if (!strncmp(entry->d_name, "nvme", 4))
			read_fact(block->name, file, block->transport, sizeof(block->transport));
	}
	if (subsystem)
		closedir(subsystem);
}

bool read_pci_id(const char *directory, char *id, size_t size)
{
	static const char *const files[] = { "vendor", "device" };
	unsigned int numbers[2] = {};
	char path[PATH_MAX];
	FILE *in;

	for (unsigned int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, files[i]);
		in = fopen(path, "re");
		if (!in)
			return false;
		if (fscanf(in, "%x", &numbers[i]) != 1)
			numbers[i] = 0;
		fclose(in);
	}
	snprintf(id, size, "%04x:%04x", numbers[0], numbers[1]);
	return true;
}

/* The nearest PCI device above it: a host adapter has many disks. */
static void read_pci(struct block *block)
{
	unsigned int domain, bus, device, function;
	char path[512], place[PATH_MAX], *name;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s", block->name);
	snprintf(block->pci, sizeof(block->pci), "-");
	if (!realpath(path, place))
		return;
	while ((name = strrchr(place, '/')) && name > place) {
		if (sscanf(name, "/%x:%x:%x.%x", &domain, &bus, &device, &function) == 4 &&
		    read_pci_id(place, block->pci, sizeof(block->pci)))
			return;
		*name = 0;
	}
}

/* By what a disk of NVMe or SCSI is reached: the controller says it, or its place in sysfs. */
static void read_transport(struct block *block)
{
	char path[512], place[4096];

	snprintf(path, sizeof(path), SYS_BLOCK "/%s", block->name);
	snprintf(block->transport, sizeof(block->transport), "-");
	if (!realpath(path, place))
		return;
	if (strstr(place, "/session"))
		snprintf(block->transport, sizeof(block->transport), "iscsi");
	else if (strstr(place, "/rport-"))
		snprintf(block->transport, sizeof(block->transport), "fc");
	else if (!strncmp(block->name, "nvme", 4)) {
		read_fact(block->name, "device/transport", block->transport,
			  sizeof(block->transport));
		read_path_transport(block);
	}
}

/* The disks that io.cost.qos of version 2's root enables, zero behind the last: it has a line a
 * disk, 253:0 enable=1 ...  NULL: none. */
static unsigned int *io_cost_devs(void)
{
	static const char *const files[] = { "/sys/fs/cgroup/io.cost.qos",
					     "/sys/fs/cgroup/unified/io.cost.qos" };
	unsigned int major_number, minor_number, count = 0, *devs = NULL, *grown;
	char line[256];

	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		FILE *in = fopen(files[i], "re");

		while (in && fgets(line, sizeof(line), in)) {
			if (sscanf(line, "%u:%u", &major_number, &minor_number) != 2 ||
			    !strstr(line, " enable=1"))
				continue;
			grown = realloc(devs, (count + 2) * sizeof(*devs));
			if (!grown)
				continue;
			devs = grown;
			devs[count++] = kernel_dev(major_number, minor_number);
			devs[count] = 0;
		}
		if (in)
			fclose(in);
	}
	return devs;
}

/* What holds requests back without a point that tells of it (rq_qos). */
static void read_queue_limits(struct block *block, const unsigned int *io_costs)
{
	static const char *const names[] = { "-", "wbt", "io.cost", "wbt,io.cost" };
	bool cost = false, wbt;
	char text[32];

	for (const unsigned int *dev = io_costs; dev && *dev; dev++)
		cost |= *dev == block->dev;
	read_fact(block->name, "queue/wbt_lat_usec", text, sizeof(text));
	wbt = strtol(text, NULL, 10) > 0;
	snprintf(block->queue_limits, sizeof(block->queue_limits), "%s", names[wbt | cost << 1]);
}

static void read_block(struct block *block, const char *name, const unsigned int *io_costs)
{
	char partition[16], sequence[32], sectors[32];

	*block = (struct block){ .dev = read_dev(name, "dev") };
	snprintf(block->name, sizeof(block->name), "%s", name);
	read_fact(name, "partition", partition, sizeof(partition));
	if (strcmp(partition, "-"))
		block->parent_dev = read_dev(name, "../dev");
	read_fact(name, "queue/scheduler", block->scheduler, sizeof(block->scheduler));
	only_bracketed(block->scheduler);
	read_fact(name, "queue/write_cache", block->write_cache, sizeof(block->write_cache));
	read_fact(name, "queue/fua", block->fua, sizeof(block->fua));
	read_fact(name, "queue/rotational", block->rotational, sizeof(block->rotational));
	read_fact(name, "queue/logical_block_size", block->logical_block_size,
		  sizeof(block->logical_block_size));
	read_fact(name, "loop/backing_file", block->backing, sizeof(block->backing));
	read_fact(name, "ro", block->read_only, sizeof(block->read_only));
	read_fact(name, "diskseq", sequence, sizeof(sequence));
	block->sequence = strtoull(sequence, NULL, 10);
	read_fact(name, "size", sectors, sizeof(sectors));
	block->empty = !strcmp(sectors, "0");
	read_transport(block);
	read_pci(block);
	read_queue_limits(block, io_costs);
	read_lower_devs(block);
}

int blocks_collect(struct blocks *blocks)
{
	unsigned int *io_costs;
	struct dirent **names;
	int count = scandir(SYS_BLOCK, &names, NULL, alphasort);

	*blocks = (struct blocks){};
	if (count < 0)
		return -errno;
	blocks->list = calloc(count, sizeof(*blocks->list));
	io_costs = io_cost_devs();
	for (int i = 0; i < count; i++) {
		if (blocks->list && names[i]->d_name[0] != '.') {
			read_block(&blocks->list[blocks->count], names[i]->d_name, io_costs);
			if (blocks->list[blocks->count].dev)
				blocks->count++;
		}
		free(names[i]);
	}
	free(io_costs);
	free(names);
	mapper_read(blocks);
	return blocks->list ? 0 : -ENOMEM;
}

void blocks_free(struct blocks *blocks)
{
	free(blocks->list);
	*blocks = (struct blocks){};
}

int blocks_add(struct blocks *blocks, struct blocks *now)
{
	/* There may be none at all. */
	struct block *list = reallocarray(now->list, now->count + blocks->count + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	now->list = list;
	for (unsigned int i = 0; i < blocks->count; i++) {
		if (!blocks_find(now, blocks->list[i].dev))
			list[now->count++] = blocks->list[i];
	}
	blocks_free(blocks);
	*blocks = *now;
	return 0;
}

const struct block *blocks_find(const struct blocks *blocks, unsigned int dev)
{
	for (unsigned int i = 0; i < blocks->count; i++) {
		if (blocks->list[i].dev == dev)
			return &blocks->list[i];
	}
	return NULL;
}

unsigned int blocks_disk_of(const struct blocks *blocks, unsigned int dev)
{
	const struct block *block = blocks_find(blocks, dev);

	return !block ? 0 : block->parent_dev ? block->parent_dev : dev;
}

static unsigned int below(const struct blocks *blocks, unsigned int dev, struct follow *list,
			  unsigned int count, unsigned int room, unsigned int depth)
{
	const struct block *block = blocks_find(blocks, blocks_disk_of(blocks, dev));

	for (unsigned int i = 0; block && depth && i < block->lower_count + block->store_count;
	     i++) {
		unsigned int lower = i < block->lower_count
					     ? block->lower_devs[i]
					     : block->store_devs[i - block->lower_count];
		unsigned int disk = blocks_disk_of(blocks, lower);

		/* A loop device's backing file lies on a file system; for others the bit is idle. */
		if (count < room)
			list[count] = (struct follow){ lower, WATCH_FS };
		count++;
		if (disk && count < room)
			list[count] = (struct follow){ disk, WATCH_DISK | WATCH_BELOW };
		count += disk != 0;
		count = below(blocks, lower, list, count, room, depth - 1);
	}
	return count;
}

unsigned int blocks_below(const struct blocks *blocks, unsigned int dev, struct follow *list,
			  unsigned int room)
{
	return below(blocks, dev, list, 0, room, 8);
}

unsigned int blocks_btrfs_devices(const struct blocks *blocks, unsigned int dev,
				  struct follow *list, unsigned int room)
{
	const struct block *known = blocks_find(blocks, dev);
	char pattern[256];
	unsigned int count = 0;
	glob_t found;

	if (!known)
		return 0;
	snprintf(pattern, sizeof(pattern), "/sys/fs/btrfs/*/devices/%s", known->name);
	if (glob(pattern, 0, NULL, &found))
		return 0;
	snprintf(pattern, sizeof(pattern), "%.*s*",
		 (int)(strlen(found.gl_pathv[0]) - strlen(known->name)), found.gl_pathv[0]);
	globfree(&found);
	if (glob(pattern, 0, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc && count < room; i++) {
		unsigned int device = read_dev(strrchr(found.gl_pathv[i], '/') + 1, "dev");

		if (device)
			list[count++] = (struct follow){ device, 0 };
	}
	globfree(&found);
	return count;
}
