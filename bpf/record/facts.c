// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The machine's facts: block devices from sysfs, what lies below what, mounts, CPUs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
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

static void add_lower(struct block_fact *block, unsigned int dev)
{
	if (dev && block->lower_count < sizeof(block->lower_devs) / sizeof(block->lower_devs[0]))
		block->lower_devs[block->lower_count++] = dev;
}

static void read_lower_devs(struct block_fact *block)
{
	struct dirent *entry;
	struct stat backing;
	char path[512];
	DIR *slaves;

	if (block->backing[0] == '/' && !stat(block->backing, &backing)) {
		if (S_ISBLK(backing.st_mode))
			add_lower(block,
				  kernel_dev(major(backing.st_rdev), minor(backing.st_rdev)));
		else
			add_lower(block, kernel_dev(major(backing.st_dev), minor(backing.st_dev)));
		if (S_ISREG(backing.st_mode))
			block->backing_inode = backing.st_ino;
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
static void read_path_transport(struct block_fact *block)
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

/* By what a disk of NVMe or SCSI is reached: the controller says it, or its place in sysfs. */
static void read_transport(struct block_fact *block)
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
static void read_queue_limits(struct block_fact *block, const unsigned int *io_costs)
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

static void read_block(struct block_fact *block, const char *name, const unsigned int *io_costs)
{
	char partition[16];

	*block = (struct block_fact){ .dev = read_dev(name, "dev") };
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
	read_transport(block);
	read_queue_limits(block, io_costs);
	read_lower_devs(block);
}

int facts_collect(struct facts *facts)
{
	unsigned int *io_costs;
	struct dirent **names;
	int count = scandir(SYS_BLOCK, &names, NULL, alphasort);

	*facts = (struct facts){};
	if (count < 0)
		return -errno;
	facts->blocks = calloc(count, sizeof(*facts->blocks));
	io_costs = io_cost_devs();
	for (int i = 0; i < count; i++) {
		if (facts->blocks && names[i]->d_name[0] != '.') {
			read_block(&facts->blocks[facts->block_count], names[i]->d_name, io_costs);
			if (facts->blocks[facts->block_count].dev)
				facts->block_count++;
		}
		free(names[i]);
	}
	free(io_costs);
	free(names);
	return facts->blocks ? 0 : -ENOMEM;
}

void facts_free(struct facts *facts)
{
	free(facts->blocks);
	*facts = (struct facts){};
}

const struct block_fact *facts_of_dev(const struct facts *facts, unsigned int dev)
{
	for (unsigned int i = 0; i < facts->block_count; i++) {
		if (facts->blocks[i].dev == dev)
			return &facts->blocks[i];
	}
	return NULL;
}

/* The whole disk; 0: no block device. */
unsigned int facts_disk_of(const struct facts *facts, unsigned int dev)
{
	const struct block_fact *block = facts_of_dev(facts, dev);

	return !block ? 0 : block->parent_dev ? block->parent_dev : dev;
}

static unsigned int below(const struct facts *facts, unsigned int dev, struct follow *list,
			  unsigned int count, unsigned int room, unsigned int depth)
{
	const struct block_fact *block = facts_of_dev(facts, facts_disk_of(facts, dev));

	for (unsigned int i = 0; block && depth && i < block->lower_count; i++) {
		unsigned int lower = block->lower_devs[i];
		unsigned int disk = facts_disk_of(facts, lower);

		/* A loop device's backing file lies on a file system; for others the bit is idle. */
		if (count < room)
			list[count] = (struct follow){ lower, WATCH_FS };
		count++;
		if (disk && count < room)
			list[count] = (struct follow){ disk, WATCH_DISK };
		count += disk != 0;
		count = below(facts, lower, list, count, room, depth - 1);
	}
	return count;
}

unsigned int facts_below(const struct facts *facts, unsigned int dev, struct follow *list,
			 unsigned int room)
{
	return below(facts, dev, list, 0, room, 8);
}

/* The devices that a btrfs has of which one is known; 0: it is of none. */
unsigned int facts_btrfs_devices(const struct facts *facts, unsigned int dev, struct follow *list,
				 unsigned int room)
{
	const struct block_fact *known = facts_of_dev(facts, dev);
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

static void print_block(FILE *out, const struct block_fact *block)
{
	fprintf(out, "%u\t%s\t%u\t%s\t%s\t%s\t%s\t%s\t%s\t", block->dev, block->name,
		block->parent_dev, block->scheduler, block->write_cache, block->fua,
		block->rotational, block->logical_block_size, block->backing);
	for (unsigned int i = 0; i < block->lower_count; i++)
		fprintf(out, "%s%u", i ? "," : "", block->lower_devs[i]);
	fputs(block->lower_count ? "\t" : "-\t", out);
	if (block->backing_inode)
		fprintf(out, "%llu\t", block->backing_inode);
	else
		fputs("-\t", out);
	fprintf(out, "%s\t%s\n", block->transport, block->queue_limits);
}

FILE *facts_create(int directory_fd, const char *name)
{
	int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0644);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

/* What has come since the recording began: file systems that were mounted, and devices. */
static void append_blocks(const struct facts *facts, FILE *out)
{
	struct facts now;

	if (facts_collect(&now))
		return;
	for (unsigned int i = 0; i < now.block_count; i++) {
		if (!facts_of_dev(facts, now.blocks[i].dev))
			print_block(out, &now.blocks[i]);
	}
	facts_free(&now);
}

static bool has_line(FILE *in, const char *wanted)
{
	char line[4096];

	rewind(in);
	while (fgets(line, sizeof(line), in)) {
		if (!strcmp(line, wanted))
			return true;
	}
	return false;
}

static void append_mounts(FILE *told)
{
	FILE *in = fopen("/proc/self/mountinfo", "re");
	char line[4096];

	while (in && fgets(line, sizeof(line), in)) {
		if (has_line(told, line))
			continue;
		fseek(told, 0, SEEK_END);
		fputs(line, told);
	}
	if (in)
		fclose(in);
}

static FILE *facts_append(int directory_fd, const char *name)
{
	int fd = openat(directory_fd, name, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? NULL : fdopen(fd, "a+");
}

int facts_follow(const struct facts *facts, int directory_fd)
{
	FILE *blocks = facts_append(directory_fd, "facts/block");
	FILE *mounts = facts_append(directory_fd, "facts/mountinfo");
	int error = blocks && mounts ? 0 : -errno;

	if (blocks)
		append_blocks(facts, blocks);
	if (mounts)
		append_mounts(mounts);
	if ((blocks ? fclose(blocks) : 0) | (mounts ? fclose(mounts) : 0))
		error = -errno;
	return error;
}

int facts_write_overlays(const struct follow *overlays, int directory_fd)
{
	FILE *out;

	if (!overlays[0].dev)
		return 0;
	out = facts_create(directory_fd, "facts/overlays");
	if (!out)
		return -errno;
	fputs("dev\tupper_dev\n", out);
	for (unsigned int i = 0; i < MAX_OVERLAYS && overlays[i].dev; i++)
		fprintf(out, "%u\t%u\n", overlays[i].dev, overlays[i].bits);
	return fclose(out) ? -errno : 0;
}

static int copy_mountinfo(int directory_fd)
{
	FILE *in = fopen("/proc/self/mountinfo", "re");
	FILE *out = facts_create(directory_fd, "facts/mountinfo");
	char buffer[4096];
	size_t got;
	int error = 0;

	while (in && out && (got = fread(buffer, 1, sizeof(buffer), in)))
		fwrite(buffer, 1, got, out);
	if (!out || fclose(out))
		error = -errno;
	if (in)
		fclose(in);
	return error;
}

/* The APIC id of each CPU that is online, by which KVM numbers a guest's virtual CPUs; no
 * file where CPUs have none. */
static int write_cpus(int directory_fd)
{
	FILE *in = fopen("/proc/cpuinfo", "re"), *out = NULL;
	unsigned int cpu = 0, apic_id;
	char line[4096];

	while (in && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "processor : %u", &cpu) == 1 ||
		    sscanf(line, "apicid : %u", &apic_id) != 1)
			continue;
		if (!out) {
			out = facts_create(directory_fd, "facts/cpus");
			if (!out)
				break;
			fputs("cpu\tapic_id\n", out);
		}
		fprintf(out, "%u\t%u\n", cpu, apic_id);
	}
	if (in)
		fclose(in);
	return out && fclose(out) ? -errno : 0;
}

int facts_write(const struct facts *facts, int directory_fd)
{
	FILE *out;
	int error;

	if (mkdirat(directory_fd, "facts", 0755) && errno != EEXIST)
		return -errno;
	out = facts_create(directory_fd, "facts/block");
	if (!out)
		return -errno;
	fputs("dev\tname\tparent_dev\tscheduler\twrite_cache\tfua\trotational\t"
	      "logical_block_size\tbacking\tlower_devs\tbacking_inode\ttransport\t"
	      "queue_limits\n",
	      out);
	for (unsigned int i = 0; i < facts->block_count; i++)
		print_block(out, &facts->blocks[i]);
	if (fclose(out))
		return -errno;
	error = copy_mountinfo(directory_fd);
	if (!error)
		error = write_cpus(directory_fd);
	return error ? error : tsc_write(directory_fd);
}
