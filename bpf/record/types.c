// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The BTF of the kernel and of its loaded modules. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "record.h"
#include "types.h"

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

static int keep(struct types *types, struct btf *module)
{
	struct module *modules =
		realloc(types->modules, (types->module_count + 1) * sizeof(*modules));

	if (!modules) {
		btf__free(module);
		return -ENOMEM;
	}
	types->modules = modules;
	modules[types->module_count++].btf = module;
	return 0;
}

int types_open(struct types *types)
{
	unsigned int id = 0;
	int error = 0;

	*types = (struct types){ .kernel = btf__load_vmlinux_btf() };
	if (!types->kernel)
		return -errno;
	while (!error && privileges_reach_modules() && !bpf_btf_get_next_id(id, &id)) {
		struct btf *module = module_btf(id, types->kernel);

		if (module)
			error = keep(types, module);
	}
	if (error)
		types_close(types);
	return error;
}

void types_close(struct types *types)
{
	for (unsigned int i = 0; i < types->module_count; i++)
		btf__free(types->modules[i].btf);
	free(types->modules);
	btf__free(types->kernel);
	*types = (struct types){};
}
