// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What device mapper's tables say of its devices that sysfs does not: where a snapshot keeps what is
 * about to be overwritten in its origin, and where arrays and mirrors have what. */
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "record.h"

#define CONTROL "/dev/mapper/control"
#define TABLE_BYTES (16 << 10)

/* Targets one after the other, their parameters behind each. */
struct dm_table {
	struct dm_ioctl head;
	struct dm_target_spec first;
	char rest[TABLE_BYTES];
};

/* As the kernel has it for programs (huge_encode_dev). */
static unsigned long long huge_dev(unsigned int dev)
{
	unsigned int major_number = dev >> 20, minor_number = dev & 0xfffff;

	return (minor_number & 0xff) | major_number << 8 |
	       (unsigned long long)(minor_number & ~0xffu) << 12;
}

static bool read_table(int control, unsigned int dev, struct dm_table *table)
{
	*table = (struct dm_table){
		.head = {
			.version = { 4, 0, 0 },
			.data_size = sizeof(*table),
			.data_start = offsetof(struct dm_table, first),
			.dev = huge_dev(dev),
			.flags = DM_STATUS_TABLE_FLAG,
		},
	};
	table->rest[TABLE_BYTES - 1] = 0;
	return !ioctl(control, DM_TABLE_STATUS, table) && table->head.target_count &&
	       !(table->head.flags & DM_BUFFER_FULL_FLAG) &&
	       table->head.data_start == offsetof(struct dm_table, first);
}

static char *parameters_of(struct dm_target_spec *target)
{
	return (char *)(target + 1);
}

/* A snapshot's, or an origin's: what it is of, and where it keeps that (0: it is the origin). */
struct snapshot {
	struct block *block;
	unsigned int origin;
	unsigned int store;
};

/* No table of several targets is one's. */
static bool parse_table(struct dm_table *table, struct snapshot *found)
{
	bool is_origin = !strcmp(table->first.target_type, "snapshot-origin");
	unsigned int origin[2], store[2] = {};
	int count;

	if (table->head.target_count != 1 ||
	    (!is_origin && strcmp(table->first.target_type, "snapshot")))
		return false;
	count = sscanf(parameters_of(&table->first), "%u:%u %u:%u", &origin[0], &origin[1],
		       &store[0], &store[1]);
	found->origin = origin[0] << 20 | origin[1];
	found->store = store[0] << 20 | store[1];
	return count == (is_origin ? 2 : 4);
}

static void add_store(struct block *block, unsigned int dev)
{
	if (block->store_count < sizeof(block->store_devs) / sizeof(block->store_devs[0]))
		block->store_devs[block->store_count++] = dev;
}

/* What is written to an origin waits until each of its snapshots has what was there. */
static void tell_stores(const struct snapshot *found, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int j = 0; !found[i].store && j < count; j++) {
			if (found[j].store && found[j].origin == found[i].origin)
				add_store(found[i].block, found[j].store);
		}
	}
}

__attribute__((format(printf, 2, 3))) static void append(char *striping, const char *format, ...)
{
	size_t length = strlen(striping);
	va_list values;

	va_start(values, format);
	vsnprintf(striping + length, STRIPING_BYTES - length, format, values);
	va_end(values);
}

static void add_disk(char *striping, const char *dev, const char *begin)
{
	unsigned int number[2];

	if (dev && begin && sscanf(dev, "%u:%u", &number[0], &number[1]) == 2)
		append(striping, ",%u+%llu", number[0] << 20 | number[1],
		       strtoull(begin, NULL, 10));
}

static unsigned int next_number(char **rest)
{
	const char *word = strtok_r(NULL, " ", rest);

	return word ? strtoul(word, NULL, 10) : 0;
}

/* Log, how much is told of that, which; how many mirrors, and of each where it begins. */
static void parse_mirror(char *parameters, char *striping)
{
	char *rest = NULL;

	strtok_r(parameters, " ", &rest);
	for (unsigned int left = next_number(&rest); left; left--)
		strtok_r(NULL, " ", &rest);
	append(striping, "%s0,1", striping[0] ? ";" : "");
	for (unsigned int left = next_number(&rest); left; left--) {
		const char *dev = strtok_r(NULL, " ", &rest);

		add_disk(striping, dev, strtok_r(NULL, " ", &rest));
	}
}

/* Level, how much is told of that, first how long a chunk is; how many disks, and of each where
 * what md knows of it is, and the data.  What is told of data that begins elsewhere, or is being
 * laid out anew, is not understood. */
static void parse_raid(char *parameters, char *striping)
{
	static const char *const moved[] = { "data_offset", "delta_disks", "reshape" };
	unsigned int parities, chunk, count;
	char *rest = NULL, *level;

	for (unsigned int i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
		if (strstr(parameters, moved[i]))
			return;
	}
	level = strtok_r(parameters, " ", &rest);
	parities = level && !strncmp(level, "raid6", 5) ? 2 : 1;
	if (!level || (parities == 1 && strncmp(level, "raid4", 5) && strncmp(level, "raid5", 5)))
		return;
	count = next_number(&rest);
	chunk = next_number(&rest);
	for (; count > 1; count--)
		strtok_r(NULL, " ", &rest);
	count = next_number(&rest);
	if (count <= parities || !chunk)
		return;
	append(striping, "%u,%u", chunk, count - parities);
	for (; count; count--) {
		strtok_r(NULL, " ", &rest);
		add_disk(striping, strtok_r(NULL, " ", &rest), "0");
	}
}

/* Of several targets, as pvmove has, the mirrors, and where each begins and how long it is. */
static void parse_mirrors(struct dm_table *table, char *striping)
{
	struct dm_target_spec *target = &table->first;

	for (unsigned int i = 0; i < table->head.target_count; i++) {
		if (!strcmp(target->target_type, "mirror")) {
			parse_mirror(parameters_of(target), striping);
			append(striping, "@%llu+%llu", target->sector_start, target->length);
		}
		target = (struct dm_target_spec *)((char *)&table->first + target->next);
	}
}

static void parse_striping(struct dm_table *table, struct block *block)
{
	if (table->head.target_count > 1)
		parse_mirrors(table, block->striping);
	else if (!strcmp(table->first.target_type, "mirror"))
		parse_mirror(parameters_of(&table->first), block->striping);
	else if (!strcmp(table->first.target_type, "raid"))
		parse_raid(parameters_of(&table->first), block->striping);
	/* Not all of it, where there was no room. */
	if (strlen(block->striping) == STRIPING_BYTES - 1)
		block->striping[0] = 0;
}

void mapper_read(struct blocks *blocks)
{
	struct snapshot *found = calloc(blocks->count + 1, sizeof(*found));
	unsigned int count = 0;
	static struct dm_table table;
	int control = -1;

	for (unsigned int i = 0; found && i < blocks->count; i++) {
		struct block *block = &blocks->list[i];

		if (strncmp(block->name, "dm-", 3))
			continue;
		if (control < 0)
			control = open(CONTROL, O_RDONLY | O_CLOEXEC);
		if (control < 0)
			break;
		if (!read_table(control, block->dev, &table))
			continue;
		found[count].block = block;
		count += parse_table(&table, &found[count]);
		parse_striping(&table, block);
	}
	if (found)
		tell_stores(found, count);
	if (control >= 0)
		close(control);
	free(found);
}
