// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What programs attach to -> whether it is there, in the kernel or in a loaded
 * module: refused one by one, each of those that are not would cost a whole load.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "record.h"

struct target {
	const char *name;
	bool found;
};

static int compare(const void *one, const void *other)
{
	return strcmp(((const struct target *)one)->name, ((const struct target *)other)->name);
}

/* Points are typedefs of their own (btf_trace_NAME), so no name is both. */
static unsigned int look_into(const struct btf *btf, unsigned int first_id, struct target *list,
			      unsigned int count)
{
	unsigned int found = 0;

	for (unsigned int id = first_id; id < btf__type_cnt(btf); id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);
		struct target key, *target;

		if (!btf_is_func(type) && !btf_is_typedef(type))
			continue;
		key.name = btf__name_by_offset(btf, type->name_off);
		target = bsearch(&key, list, count, sizeof(*list), compare);
		if (target && !target->found) {
			target->found = true;
			found++;
		}
	}
	return found;
}

/* A module's own types, which come after those of the kernel; NULL: no module's. */
static struct btf *module_btf(unsigned int id, struct btf *kernel)
{
	char name[64] = "";
	struct bpf_btf_info info = { .name = (uintptr_t)name, .name_len = sizeof(name) };
	__u32 size = sizeof(info);
	int fd = bpf_btf_get_fd_by_id(id);
	bool module;

	if (fd < 0)
		return NULL;
	module = !bpf_obj_get_info_by_fd(fd, &info, &size) && info.kernel_btf &&
		 strcmp(name, "vmlinux");
	close(fd);
	return module ? btf__load_from_kernel_by_id_split(id, kernel) : NULL;
}

static void look_into_all(struct btf *kernel, struct target *list, unsigned int count)
{
	unsigned int found = look_into(kernel, 1, list, count);
	unsigned int id = 0;

	while (found < count && !bpf_btf_get_next_id(id, &id)) {
		struct btf *module = module_btf(id, kernel);

		if (module)
			found += look_into(module, btf__type_cnt(kernel), list, count);
		btf__free(module);
	}
}

/* The names in order, each once: several programs may attach to one point. */
static unsigned int list_names(struct target *list, const char *const *names, unsigned int count)
{
	unsigned int used = 0;

	for (unsigned int i = 0; i < count; i++)
		list[i].name = names[i];
	qsort(list, count, sizeof(*list), compare);
	for (unsigned int i = 0; i < count; i++) {
		if (!used || strcmp(list[i].name, list[used - 1].name))
			list[used++] = list[i];
	}
	return used;
}

int presence_test(const char *const *names, bool *present, unsigned int count)
{
	struct target *list = calloc(count, sizeof(*list));
	struct btf *kernel = btf__load_vmlinux_btf();
	unsigned int used;
	int error = 0;

	if (list && kernel) {
		used = list_names(list, names, count);
		look_into_all(kernel, list, used);
		for (unsigned int i = 0; i < count; i++) {
			struct target key = { .name = names[i] };
			struct target *found = bsearch(&key, list, used, sizeof(*list), compare);

			present[i] = found && found->found;
		}
	} else {
		error = list ? -errno : -ENOMEM;
	}
	btf__free(kernel);
	free(list);
	return error;
}
