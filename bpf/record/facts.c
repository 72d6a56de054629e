// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The machine's facts as files of the recording: block devices, mounts, CPUs. */
#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"

static void print_devs(FILE *out, const unsigned int *devs, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		fprintf(out, "%s%u", i ? "," : "", devs[i]);
	if (!count)
		fputc('-', out);
}

static void print_block(FILE *out, const struct block *block)
{
	fprintf(out, "%u\t%s\t%u\t%s\t%s\t%s\t%s\t%s\t%s\t", block->dev, block->name,
		block->parent_dev, block->scheduler, block->write_cache, block->fua,
		block->rotational, block->logical_block_size, block->backing);
	print_devs(out, block->lower_devs, block->lower_count);
	fputc('\t', out);
	if (block->backing_inode)
		fprintf(out, "%llu\t", block->backing_inode);
	else
		fputs("-\t", out);
	fprintf(out, "%s\t%s\t%s\t", block->transport, block->queue_limits, block->pci);
	print_devs(out, block->store_devs, block->store_count);
	fprintf(out, "\t%s\n", block->striping[0] ? block->striping : "-");
}

FILE *facts_create(int directory_fd, const char *name)
{
	int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0644);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Whether a device lies on something else than before. */
static bool has_moved(const struct block *before, const struct block *now)
{
	return before->backing_inode != now->backing_inode ||
	       before->lower_count != now->lower_count ||
	       memcmp(before->lower_devs, now->lower_devs,
		      now->lower_count * sizeof(*now->lower_devs));
}

/* How often a loop device was given a file, or left without, at most.  Since Linux cf179948554a,
 * in v5.15, each such change has a number, higher than all before it on this machine: those that
 * no other disk has as its last may be this one's. */
static unsigned long long changes(const struct blocks *blocks, const struct blocks *now,
				  const struct block *before, const struct block *block)
{
	unsigned long long count, last = 0;

	if (block->dev >> 20 != LOOP_MAJOR || block->sequence == before->sequence)
		return 0;
	for (unsigned int i = 0; i < blocks->count; i++) {
		if (blocks->list[i].sequence > last)
			last = blocks->list[i].sequence;
	}
	count = block->sequence - last;
	for (unsigned int i = 0; i < now->count; i++)
		count -= now->list[i].sequence > last && now->list[i].sequence < block->sequence;
	return count;
}

/* Whether a number went to another disk, or a part of one; a loop device is the same with another
 * file. */
static bool is_another(const struct block *before, const struct block *now)
{
	return now->dev >> 20 != LOOP_MAJOR &&
	       (now->sequence != before->sequence || now->parent_dev != before->parent_dev ||
		strcmp(now->name, before->name));
}

/* How often a device is to be told again.  Who is told twice to lie on something lay on nobody
 * knows what: also where that is over by now, and what was in between nobody saw.  Who lies on
 * nothing is told again if it is another. */
static unsigned int times_told(const struct block *before, const struct block *now,
			       unsigned long long changes)
{
	if (before->lower_count && !now->lower_count && is_another(before, now))
		return 1;
	if (before->lower_count)
		return changes > 1 || (now->lower_count && (changes || has_moved(before, now)));
	if (!now->lower_count)
		return is_another(before, now);
	return changes > 1 ? 2 : 1;
}

/* It is on what it was told to be on last. */
static void keep_lower(struct block *block, const struct block *before)
{
	memcpy(block->backing, before->backing, sizeof(block->backing));
	memcpy(block->lower_devs, before->lower_devs, sizeof(block->lower_devs));
	block->backing_inode = before->backing_inode;
	block->lower_count = before->lower_count;
}

static void append_blocks(struct blocks *blocks, FILE *out)
{
	struct blocks now;

	if (blocks_collect(&now))
		return;
	for (unsigned int i = 0; i < now.count; i++) {
		struct block *block = &now.list[i];
		const struct block *before = blocks_find(blocks, block->dev);
		unsigned int times = 1;

		if (before)
			times = times_told(before, block, changes(blocks, &now, before, block));
		if (before && !times)
			keep_lower(block, before);
		while (times--)
			print_block(out, block);
	}
	if (blocks_add(blocks, &now))
		blocks_free(&now);
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

int facts_follow_disks(struct blocks *blocks, int directory_fd)
{
	FILE *told = facts_append(directory_fd, "facts/block");

	if (!told)
		return -errno;
	append_blocks(blocks, told);
	return fclose(told) ? -errno : 0;
}

int facts_follow(struct blocks *blocks, int directory_fd)
{
	FILE *mounts = facts_append(directory_fd, "facts/mountinfo");
	int error = mounts ? 0 : -errno;

	if (mounts) {
		append_mounts(mounts);
		error = fclose(mounts) ? -errno : 0;
	}
	return facts_follow_disks(blocks, directory_fd) ?: error;
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

int facts_write(const struct blocks *blocks, int directory_fd)
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
	      "queue_limits\tpci\tstore_devs\tstriping\n",
	      out);
	for (unsigned int i = 0; i < blocks->count; i++)
		print_block(out, &blocks->list[i]);
	if (fclose(out))
		return -errno;
	error = copy_mountinfo(directory_fd);
	if (!error)
		error = write_cpus(directory_fd);
	return error ? error : tsc_write(directory_fd);
}
