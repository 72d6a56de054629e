// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What this kernel can do, found by looking at it: the constants of the BPF programs. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "record.h"
#include "types.h"
#include "iostrata.skel.h"

/* The prototype of a tracepoint's program; its first parameter is no argument. */
static const struct btf_type *tracepoint(const struct btf *btf, const char *name)
{
	const struct btf_type *type;
	char typedef_name[64];
	int id;

	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	id = btf__find_by_name_kind(btf, typedef_name, BTF_KIND_TYPEDEF);
	if (id < 0)
		return NULL;
	type = btf__type_by_id(btf, id);
	type = btf__type_by_id(btf, type->type);
	if (!type || !btf_is_ptr(type))
		return NULL;
	type = btf__type_by_id(btf, type->type);
	return type && btf_is_func_proto(type) ? type : NULL;
}

static unsigned int argument_count(const struct btf *btf, const char *name)
{
	const struct btf_type *prototype = tracepoint(btf, name);

	return prototype ? btf_vlen(prototype) - 1 : 0;
}

/* The name of the type of the n-th argument, "" where it has none (a pointer). */
static const char *argument_type(const struct btf *btf, const char *name, unsigned int n)
{
	const struct btf_type *prototype = tracepoint(btf, name);
	const struct btf_type *type;

	if (!prototype || btf_vlen(prototype) < n + 2)
		return "";
	type = btf__type_by_id(btf, btf_params(prototype)[n + 1].type);
	return type ? btf__name_by_offset(btf, type->name_off) : "";
}

/* Whether BPF has atomic operations that return the old value. */
static bool test_cmpxchg(void)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = 1 },
		{ .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = 10, .src_reg = 0, .off = -8 },
		{ .code = BPF_STX | BPF_ATOMIC | BPF_DW,
		  .dst_reg = 10,
		  .src_reg = 1,
		  .off = -8,
		  .imm = BPF_CMPXCHG },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "cmpxchg", "GPL", instructions,
			       sizeof(instructions) / sizeof(instructions[0]), NULL);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Whether programs may be attached to the kernel's functions: -EPERM under lockdown. */
static int test_fentry(const struct btf *btf)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY,
		    .attach_btf_id = btf__find_by_name_kind(btf, "vfs_fsync", BTF_KIND_FUNC));
	int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "fentry", "GPL", instructions,
			       sizeof(instructions) / sizeof(instructions[0]), &options);
	int error = fd < 0 ? -EPERM : 0;

	/* There kernels before Linux 2aa6ac03516d (in v6.4) load what they cannot attach. */
#ifdef __aarch64__
	int link = fd < 0 ? -1 : bpf_raw_tracepoint_open(NULL, fd);

	if (link >= 0)
		close(link);
	else if (!error)
		error = -EOPNOTSUPP;
#endif
	if (fd >= 0)
		close(fd);
	return error;
}

static unsigned int structure(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

	return id < 0 ? 0 : id;
}

/* The numbers of the types that addresses are said to be of. */
static void look_for_types(struct type_ids *ids, const struct btf *btf)
{
	ids->block_device = structure(btf, "block_device");
	ids->dentry = structure(btf, "dentry");
	ids->file = structure(btf, "file");
	ids->inode = structure(btf, "inode");
	ids->kiocb = structure(btf, "kiocb");
	ids->super_block = structure(btf, "super_block");
	ids->task_struct = structure(btf, "task_struct");
}

/* Whether a point's program may be preempted: since Linux a46023d5616e ("tracing: Guard
 * __DECLARE_TRACE() use of __DO_TRACE_CALL() with SRCU-fast"), in v7.0. */
static bool points_are_preempted(void)
{
	struct utsname name;

	return !uname(&name) && atoi(name.release) >= 7;
}

void kernel_look(struct kernel *kernel, const struct types *types)
{
	const struct btf *btf = types->kernel;

	*kernel = (struct kernel){};
	kernel->has_cmpxchg = test_cmpxchg();
	kernel->fentry_error = test_fentry(btf);
	kernel->has_rdonly_cast = btf__find_by_name_kind(btf, "bpf_rdonly_cast", BTF_KIND_FUNC) > 0;
	if (kernel->has_rdonly_cast)
		look_for_types(&kernel->type_ids, btf);
	kernel->block_rq_argument = argument_count(btf, "block_rq_issue") > 1;
	kernel->block_bio_argument = argument_count(btf, "block_bio_queue") > 1;
	kernel->block_status_argument =
		!strcmp(argument_type(btf, "block_rq_complete", 1), "blk_status_t");
	kernel->switch_state_argument = argument_count(btf, "sched_switch") > 3;
	kernel->functions_stood_in = libbpf_probe_bpf_helper(BPF_PROG_TYPE_TRACEPOINT,
							     BPF_FUNC_task_storage_get, NULL) == 1;
	kernel->points_stood_in = kernel->functions_stood_in && points_are_preempted();
}

void kernel_tell(const struct kernel *kernel, struct iostrata *skeleton)
{
	skeleton->rodata->has_cmpxchg = kernel->has_cmpxchg;
	skeleton->rodata->has_rdonly_cast = kernel->has_rdonly_cast;
	memcpy((void *)&skeleton->rodata->type_ids, &kernel->type_ids, sizeof(kernel->type_ids));
	skeleton->rodata->page_bytes = sysconf(_SC_PAGESIZE);
	skeleton->rodata->block_rq_argument = kernel->block_rq_argument;
	skeleton->rodata->block_bio_argument = kernel->block_bio_argument;
	skeleton->rodata->block_status_argument = kernel->block_status_argument;
	skeleton->rodata->switch_state_argument = kernel->switch_state_argument;
	skeleton->rodata->functions_stood_in = kernel->functions_stood_in;
	skeleton->rodata->points_stood_in = kernel->points_stood_in;
}

/* System call points are found through tracefs, which a small guest may not have mounted. */
void kernel_mount_tracefs(void)
{
	/* With the capabilities of the recorder's file, too. */
	if (faccessat(AT_FDCWD, "/sys/kernel/tracing/events", F_OK, AT_EACCESS) &&
	    faccessat(AT_FDCWD, "/sys/kernel/debug/tracing/events", F_OK, AT_EACCESS) &&
	    mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL))
		warn("tracefs cannot be mounted (%s): system calls will not be seen; "
		     "try: mount -t tracefs tracefs /sys/kernel/tracing",
		     strerror(errno));
}
