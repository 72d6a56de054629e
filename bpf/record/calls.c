// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that are attached to the points of many system calls (SEC("tp") names none). */
#include <errno.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "probes.h"

#define MAX_CALLS 16

static const struct calls {
	const char *program;
	const char *prefix;
	const char *names[MAX_CALLS];
} calls[] = {
	{ "aio_exit", "sys_exit_", { "io_submit", "io_getevents", "io_pgetevents" } },
	{ "aio_getevents_enter", "sys_enter_", { "io_getevents", "io_pgetevents" } },
	{ "syscall_enter_sync", "sys_enter_", { "fsync", "fdatasync", "syncfs" } },
	{ "syscall_enter_sync_all", "sys_enter_", { "sync" } },
	{ "syscall_enter_write", "sys_enter_", { "write", "writev" } },
	{ "syscall_enter_pwrite", "sys_enter_", { "pwrite64", "pwritev", "sync_file_range" } },
	{ "syscall_enter_rare",
	  "sys_enter_",
	  { "pwritev2", "sendfile64", "splice", "copy_file_range", "fallocate", "ftruncate" } },
	{ "syscall_exit",
	  "sys_exit_",
	  { "write", "pwrite64", "writev", "pwritev", "pwritev2", "fsync", "fdatasync", "syncfs",
	    "sync", "sync_file_range", "msync", "sendfile64", "splice", "copy_file_range",
	    "fallocate", "ftruncate" } },
	{ "syscall_enter_msync", "sys_enter_", { "msync" } },
	{ "syscall_enter_msync_blind", "sys_enter_", { "msync" } },
	{ "read_enter", "sys_enter_", { "read", "readv" } },
	{ "read_enter_at", "sys_enter_", { "pread64", "preadv" } },
	{ "read_enter_with_flags", "sys_enter_", { "preadv2" } },
	{ "read_exit", "sys_exit_", { "read", "readv", "pread64", "preadv", "preadv2" } },
	{ "fuse_taken", "sys_exit_", { "read", "readv", "splice" } },
};

#define PROGRAMS (sizeof(calls) / sizeof(calls[0]))

static const struct calls *find(const char *program)
{
	for (unsigned int i = 0; i < PROGRAMS; i++) {
		if (!strcmp(calls[i].program, program))
			return &calls[i];
	}
	return NULL;
}

bool calls_name(const char *program, char *points, size_t size)
{
	const struct calls *of = find(program);
	size_t used = 0;

	for (unsigned int i = 0; of && i < MAX_CALLS && of->names[i] && used < size; i++)
		used += snprintf(points + used, size - used, "%s%s%s", i ? "," : "", of->prefix,
				 of->names[i]);
	return of;
}

/* A call that this kernel lacks does not cost the others. */
bool calls_attach(struct probes *probes, struct probe *probe, const struct bpf_program *program)
{
	const struct calls *of = find(probe->program);
	unsigned int attached = 0;
	int result = 0;

	for (unsigned int i = 0; of && i < MAX_CALLS && of->names[i]; i++) {
		char point[64];
		int error;

		snprintf(point, sizeof(point), "%s%s", of->prefix, of->names[i]);
		error = probes_keep(probes, program,
				    bpf_program__attach_tracepoint(program, "syscalls", point));
		if (!error)
			attached++;
		else if (error != -ENOENT)
			result = error;
	}
	if (of)
		probe->error = result || attached ? result : -ENOENT;
	return of;
}
