// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A set of names, each with a number: what all the kernel's types are looked for in. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "types.h"

static uint32_t hash(const char *text, size_t length)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * 16777619u;
	return hash;
}

/* Where it is, or would be. */
static unsigned int *place_of(const struct names *names, const char *text, size_t length)
{
	for (uint32_t at = hash(text, length);; at++) {
		unsigned int *slot = &names->slots[at & names->mask];
		const struct name *name;

		if (!*slot)
			return slot;
		name = &names->list[*slot - 1];
		if (name->length == length && !memcmp(name->text, text, length))
			return slot;
	}
}

int names_begin(struct names *names, unsigned int room)
{
	unsigned int slots = 16;

	while (slots < 2 * room)
		slots *= 2;
	*names = (struct names){
		.list = calloc(room ? room : 1, sizeof(*names->list)),
		.slots = calloc(slots, sizeof(*names->slots)),
		.mask = slots - 1,
	};
	if (names->list && names->slots)
		return 0;
	names_end(names);
	return -ENOMEM;
}

void names_add(struct names *names, const char *text, size_t length)
{
	unsigned int *slot = place_of(names, text, length);

	if (*slot)
		return;
	names->list[names->count++] = (struct name){ text, length };
	*slot = names->count;
}

int names_find(const struct names *names, const char *text)
{
	return (int)*place_of(names, text, strlen(text)) - 1;
}

void names_end(struct names *names)
{
	free(names->list);
	free(names->slots);
	*names = (struct names){};
}
