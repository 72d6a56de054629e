// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Where each CPU that is online lies: a line `cpu node package core` each in facts/topology.  The
 * kernel has no nodes where it was built without NUMA, and -1 for what its firmware does not tell:
 * both are `-`.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "record.h"

#define CPUS "/sys/devices/system/cpu"

/* A CPU's directory has a link to that of its node, which has its name. */
static int node_of(const char *directory)
{
	DIR *entries = opendir(directory);
	struct dirent *entry;
	int node = -1;

	while (entries && node < 0 && (entry = readdir(entries))) {
		if (sscanf(entry->d_name, "node%d", &node) != 1)
			node = -1;
	}
	if (entries)
		closedir(entries);
	return node;
}

static int read_number(const char *directory, const char *name)
{
	char path[PATH_MAX];
	int number = -1;
	FILE *in;

	snprintf(path, sizeof(path), "%s/topology/%s", directory, name);
	in = fopen(path, "re");
	if (in && fscanf(in, "%d", &number) != 1)
		number = -1;
	if (in)
		fclose(in);
	return number;
}

static void print_number(FILE *out, int number)
{
	if (number < 0)
		fputs("\t-", out);
	else
		fprintf(out, "\t%d", number);
}

/* One that is not online has no core. */
static void print_cpu(FILE *out, unsigned int cpu)
{
	char directory[PATH_MAX];
	int core;

	snprintf(directory, sizeof(directory), CPUS "/cpu%u", cpu);
	core = read_number(directory, "core_id");
	if (core < 0)
		return;
	fprintf(out, "%u", cpu);
	print_number(out, node_of(directory));
	print_number(out, read_number(directory, "physical_package_id"));
	print_number(out, core);
	fputc('\n', out);
}

int topology_write(unsigned int cpus, int directory_fd)
{
	FILE *out = facts_create(directory_fd, "facts/topology");

	if (!out)
		return -errno;
	fputs("cpu\tnode\tpackage\tcore\n", out);
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		print_cpu(out, cpu);
	return fclose(out) ? -errno : 0;
}
