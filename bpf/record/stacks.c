// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel stacks of sleeps -> facts/stacks, a line each: its number, and its
 * functions from the innermost.  Names are resolved here, where the kernel's
 * addresses mean something; where they are hidden (kptr_restrict), there is no file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "record.h"
#include "shared.h"

struct symbol {
	uint64_t address;
	char *name;
};

struct symbols {
	struct symbol *list;
	size_t count, room;
};

static int by_address(const void *one, const void *other)
{
	uint64_t a = ((const struct symbol *)one)->address;
	uint64_t b = ((const struct symbol *)other)->address;

	return a < b ? -1 : a > b;
}

static int symbols_add(struct symbols *symbols, uint64_t address, const char *name)
{
	if (symbols->count == symbols->room) {
		size_t room = symbols->room ? symbols->room * 2 : 1 << 16;
		void *list = reallocarray(symbols->list, room, sizeof(*symbols->list));

		if (!list)
			return -ENOMEM;
		symbols->list = list;
		symbols->room = room;
	}
	symbols->list[symbols->count].name = strdup(name);
	if (!symbols->list[symbols->count].name)
		return -ENOMEM;
	symbols->list[symbols->count++].address = address;
	return 0;
}

/* All functions of the kernel and its modules, in order of address. */
static int symbols_read(struct symbols *symbols)
{
	FILE *in = fopen("/proc/kallsyms", "re");
	char line[1024], type, name[512];
	unsigned long long address;
	int error = 0;

	if (!in)
		return -errno;
	while (!error && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%llx %c %511s", &address, &type, name) == 3 && address &&
		    strchr("tTwW", type))
			error = symbols_add(symbols, address, name);
	}
	fclose(in);
	/* Without CAP_SYSLOG all addresses are 0. */
	if (symbols->count)
		qsort(symbols->list, symbols->count, sizeof(*symbols->list), by_address);
	return error;
}

static void symbols_free(struct symbols *symbols)
{
	for (size_t i = 0; i < symbols->count; i++)
		free(symbols->list[i].name);
	free(symbols->list);
}

/* The last function that begins at or before an address. */
static const char *symbol_of(const struct symbols *symbols, uint64_t address)
{
	size_t low = 0, high = symbols->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (symbols->list[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? symbols->list[low - 1].name : "?";
}

static void print_stacks(FILE *out, int map_fd, const struct symbols *symbols)
{
	uint32_t key, *before = NULL;

	fputs("stack\tfunctions\n", out);
	for (; !bpf_map_get_next_key(map_fd, before, &key); before = &key) {
		uint64_t frames[STACK_FRAMES] = {};

		if (bpf_map_lookup_elem(map_fd, &key, frames))
			continue;
		fprintf(out, "%u\t", key);
		for (int i = 0; i < STACK_FRAMES && frames[i]; i++)
			fprintf(out, "%s%s", i ? " " : "", symbol_of(symbols, frames[i]));
		fputc('\n', out);
	}
}

int stacks_write(int map_fd, int directory_fd)
{
	struct symbols symbols = {};
	int error = symbols_read(&symbols);
	FILE *out = NULL;

	if (!error && symbols.count) {
		out = facts_create(directory_fd, "facts/stacks");
		error = out ? 0 : -errno;
	}
	if (out) {
		print_stacks(out, map_fd, &symbols);
		error = fclose(out) ? -errno : 0;
	}
	symbols_free(&symbols);
	return error;
}
