/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What BTF tells of the kernel's types, and of its loaded modules'. */
#ifndef IOSTRATA_TYPES_H
#define IOSTRATA_TYPES_H

#include <stddef.h>

struct btf;

/* names.c */
struct name {
	const char *text; /* as it was given */
	size_t length;
};

struct names {
	struct name *list; /* each once, in the order they came */
	unsigned int count;
	unsigned int *slots; /* 1 + its number, 0: free */
	unsigned int mask;
};

int names_begin(struct names *names, unsigned int room);
/* No more than there is room for. */
void names_add(struct names *names, const char *text, size_t length);
/* Its number, -1: it is none of them */
int names_find(const struct names *names, const char *text);
void names_end(struct names *names);

/* types.c */
struct module {
	struct btf *btf; /* its own types come behind the kernel's */
};

struct types {
	struct btf *kernel;
	struct module *modules;
	unsigned int module_count;
};

/* All that is loaded and may be looked at. */
int types_open(struct types *types);
void types_close(struct types *types);

/* core.c: a file of BTF with those types that ours look into; its descriptor */
int core_write(const struct types *types, const struct btf *ours);

#endif
