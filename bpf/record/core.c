// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Those types of the kernel and its modules that the programs look into, as BTF of their own.  libbpf
 * looks for each type of ours among all that it is given, and there are some 100,000 of the kernel: a
 * millisecond each time.  What lies behind a pointer is left out, and members that no program
 * names, as nothing is asked of them; a type's number here is not the kernel's.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "record.h"
#include "types.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* since Linux 105ff5339f49 (in v6.3) */
#endif

struct core {
	struct names types;     /* of ours, without what flavours add */
	struct names members;   /* of ours */
	uint32_t *found;        /* bits of kinds: the kernel itself has a type of that name */
	const struct btf *from; /* the kernel's, or a module's with the kernel's before it */
	int *ids;               /* what its types are in `to`, 0: not there yet */
	struct btf *to;
	int pointer; /* to whatever it may be */
};

/* Whether programs may ask for it by its name. */
static bool is_named(const struct btf_type *type)
{
	return type->name_off && (btf_is_composite(type) || btf_is_any_enum(type));
}

/* Both kinds of enumerations are one. */
static uint32_t kind_bit(const struct btf_type *type)
{
	return 1u << (btf_is_any_enum(type) ? BTF_KIND_ENUM : btf_kind(type));
}

/* The length of a name without what is behind its last "___": a flavour (bpf_core_read.h). */
static size_t essential_length(const char *name)
{
	const char *end = NULL, *next = name;

	while ((next = strstr(next, "___")))
		end = next++;
	return end && end > name ? (size_t)(end - name) : strlen(name);
}

static const char *name_of(const struct core *core, unsigned int offset)
{
	return btf__name_by_offset(core->from, offset);
}

static int list_ours(struct core *core, const struct btf *ours)
{
	unsigned int count = btf__type_cnt(ours), members = 0;
	int error = names_begin(&core->types, count);

	for (unsigned int id = 1; !error && id < count; id++) {
		const struct btf_type *type = btf__type_by_id(ours, id);
		const char *name = btf__name_by_offset(ours, type->name_off);

		if (is_named(type))
			names_add(&core->types, name, essential_length(name));
		if (btf_is_composite(type))
			members += btf_vlen(type);
	}
	if (!error)
		error = names_begin(&core->members, members);
	for (unsigned int id = 1; !error && id < count; id++) {
		const struct btf_type *type = btf__type_by_id(ours, id);
		const struct btf_member *member = btf_members(type);

		for (unsigned int i = 0; btf_is_composite(type) && i < btf_vlen(type); i++) {
			const char *name = btf__name_by_offset(ours, member[i].name_off);

			names_add(&core->members, name, strlen(name));
		}
	}
	return error;
}

static int copy(struct core *core, unsigned int id);

/* What has no name has members that may be asked for. */
static bool is_wanted(const struct core *core, const struct btf_member *member)
{
	return !member->name_off ||
	       names_find(&core->members, name_of(core, member->name_off)) >= 0;
}

static int copy_composite(struct core *core, const struct btf_type *type)
{
	const struct btf_member *member = btf_members(type);
	const char *name = name_of(core, type->name_off);
	int error = 0, id;

	/* What they are of comes first: a member is added to the last type. */
	for (unsigned int i = 0; error >= 0 && i < btf_vlen(type); i++) {
		if (is_wanted(core, &member[i]))
			error = copy(core, member[i].type);
	}
	if (error < 0)
		return error;
	id = btf_is_struct(type) ? btf__add_struct(core->to, name, type->size)
				 : btf__add_union(core->to, name, type->size);
	for (unsigned int i = 0; id >= 0 && error >= 0 && i < btf_vlen(type); i++) {
		if (is_wanted(core, &member[i]))
			error = btf__add_field(core->to, name_of(core, member[i].name_off),
					       copy(core, member[i].type),
					       btf_member_bit_offset(type, i),
					       btf_member_bitfield_size(type, i));
	}
	return error < 0 ? error : id;
}

static int copy_array(struct core *core, const struct btf_type *type)
{
	const struct btf_array *array = btf_array(type);
	int element = copy(core, array->type), index = copy(core, array->index_type);

	if (element < 0 || index < 0)
		return element < 0 ? element : index;
	return btf__add_array(core->to, index, element, array->nelems);
}

/* A type that is no mere name of another; 0: nothing that a member can be. */
static int copy_anew(struct core *core, const struct btf_type *type)
{
	switch (btf_kind(type)) {
	case BTF_KIND_INT:
	case BTF_KIND_FLOAT:
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		return btf__add_type(core->to, core->from, type);
	case BTF_KIND_PTR:
		if (!core->pointer)
			core->pointer = btf__add_ptr(core->to, 0);
		return core->pointer;
	case BTF_KIND_ARRAY:
		return copy_array(core, type);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return copy_composite(core, type);
	}
	return 0;
}

/* What a type is in `to`, 0: void; -errno. */
static int copy(struct core *core, unsigned int id)
{
	const struct btf_type *type = btf__type_by_id(core->from, id);

	while (type && (btf_is_mod(type) || btf_is_typedef(type))) {
		id = type->type;
		type = btf__type_by_id(core->from, id);
	}
	if (!id || !type)
		return 0;
	if (!core->ids[id])
		core->ids[id] = copy_anew(core, type);
	return core->ids[id];
}

/* Of what the kernel itself has, as libbpf does, no module is asked. */
static int copy_named(struct core *core, const struct btf *from, unsigned int first, bool module)
{
	unsigned int count = btf__type_cnt(from);
	int *ids = realloc(core->ids, count * sizeof(*ids)), id = 0;

	if (!ids)
		return -ENOMEM;
	core->from = from;
	core->ids = ids;
	memset(&ids[first], 0, (count - first) * sizeof(*ids));
	for (unsigned int at = first; id >= 0 && at < count; at++) {
		const struct btf_type *type = btf__type_by_id(from, at);
		int number = is_named(type)
				     ? names_find(&core->types, name_of(core, type->name_off))
				     : -1;

		if (number < 0 || (module && core->found[number] & kind_bit(type)))
			continue;
		if (!module)
			core->found[number] |= kind_bit(type);
		id = copy(core, at);
	}
	return id < 0 ? id : 0;
}

static int copy_all(struct core *core, const struct types *types)
{
	unsigned int own = btf__type_cnt(types->kernel);
	int error = copy_named(core, types->kernel, 0, false);

	for (unsigned int i = 0; !error && i < types->module_count; i++)
		error = copy_named(core, types->modules[i].btf, own, true);
	return error;
}

/* Some kernels have none that may be executed (vm.memfd_noexec), and older ones none that may not. */
static int memory_file(void)
{
	int fd = memfd_create("types", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create("types", MFD_CLOEXEC) : fd;
}

static int write_out(const struct btf *btf)
{
	__u32 size = 0;
	const void *data = btf__raw_data(btf, &size);
	int fd = data ? memory_file() : -1;

	if (fd >= 0 && write(fd, data, size) == (ssize_t)size)
		return fd;
	if (fd >= 0)
		close(fd);
	return data ? -EIO : -ENOMEM;
}

int core_write(const struct types *types, const struct btf *ours)
{
	struct core core = { .to = btf__new_empty() };
	int error = core.to ? list_ours(&core, ours) : -errno;

	if (!error) {
		core.found = calloc(core.types.count + 1, sizeof(*core.found));
		error = core.found ? copy_all(&core, types) : -ENOMEM;
	}
	if (!error)
		error = write_out(core.to);
	names_end(&core.types);
	names_end(&core.members);
	free(core.found);
	free(core.ids);
	btf__free(core.to);
	return error;
}
