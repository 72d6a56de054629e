// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What programs attach to -> whether it is there, in the kernel or in a loaded
 * module: refused one by one, each of those that are not would cost a whole load.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>

#include "record.h"
#include "types.h"

/* Points are typedefs of their own (btf_trace_NAME), so no name is both. */
static void look_into(const struct btf *btf, unsigned int first, const struct names *names,
		      bool *found)
{
	for (unsigned int id = first; id < btf__type_cnt(btf); id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);
		int number;

		if (!btf_is_func(type) && !btf_is_typedef(type))
			continue;
		number = names_find(names, btf__name_by_offset(btf, type->name_off));
		if (number >= 0)
			found[number] = true;
	}
}

int presence_test(const struct types *types, const char *const *list, bool *present,
		  unsigned int count)
{
	bool *found = calloc(count, sizeof(*found));
	struct names names;
	int error = found ? names_begin(&names, count) : -ENOMEM;

	if (!error) {
		for (unsigned int i = 0; i < count; i++)
			names_add(&names, list[i], strlen(list[i]));
		look_into(types->kernel, 1, &names, found);
		for (unsigned int i = 0; i < types->module_count; i++)
			look_into(types->modules[i].btf, btf__type_cnt(types->kernel), &names,
				  found);
		for (unsigned int i = 0; i < count; i++)
			present[i] = found[names_find(&names, list[i])];
		names_end(&names);
	}
	free(found);
	return error;
}
