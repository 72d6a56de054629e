// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What was asked for -> what the BPF programs compare with. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "record.h"
#include "iostrata.skel.h"

#define DEPTH 64 /* of a process tree */

/* A path below its hierarchy as the kernel tells it: a / before each part, and no others. */
static void cgroup_known_by(struct cgroup_filter *filter, const char *below)
{
	char path[CGROUP_PATH + 2];
	unsigned int length = 0;

	filter->level = 0;
	for (const char *c = below; *c && length < CGROUP_PATH; c++) {
		if (*c == '/')
			continue;
		if (c == below || c[-1] == '/') {
			filter->level++;
			path[length++] = '/';
		}
		path[length++] = *c;
	}
	filter->path = length < CGROUP_PATH ? PATH_BASIS : 0;
	for (unsigned int i = 0; filter->path && i < length; i++)
		filter->path = (filter->path ^ (unsigned char)path[i]) * PATH_PRIME;
}

/* A path below the version 2 hierarchy; its level is its depth there. */
static int cgroup_filter(struct cgroup_filter *filter, unsigned long long *id, const char *name)
{
	static const char *const roots[] = { CGROUP_ROOT, CGROUP_ROOT "/unified" };
	char path[PATH_MAX], procs[PATH_MAX + 32];
	struct stat status;

	for (unsigned int i = 0; i < 2; i++) {
		const char *root = roots[1 - i];
		const char *below = strncmp(name, root, strlen(root)) ? name : name + strlen(root);

		snprintf(path, sizeof(path), "%s/%s", root, below);
		snprintf(procs, sizeof(procs), "%s/cgroup.controllers", path);
		if (access(procs, F_OK) || stat(path, &status))
			continue;
		*id = status.st_ino;
		cgroup_known_by(filter, below);
		return 0;
	}
	fail("--cgroup %s: no such cgroup of version 2 below " CGROUP_ROOT, name);
	return -ENOENT;
}

int filter_fill(struct filter *filter, unsigned long long groups[MAX_NAMES],
		const struct options *options)
{
	*filter = (struct filter){
		.tree = options->pid_count ||
			(!options->comm_count && !options->cgroup_count && !options->all),
		.device = options->device_count > 0,
		.comm_count = options->comm_count,
		.cgroup_count = options->cgroup_count,
		.own_tgid = getpid(),
		.why = options->why,
		.who = options->who,
		.detail = options->detail,
		.names = !options->no_names,
		.reads = options->reads,
	};
	memcpy(filter->ports, options->ports, sizeof(filter->ports));
	duties_tell(options->duties, filter);
	/* What it takes to look at a program that comes later is kept for those who serve guests. */
	filter->library = options->duties & DUTY_BIT(workload) && options->duties & DUTY_BIT(vmm);
	if (filter->library)
		filter->process_kinds |= 1u << THREAD_LIBRBD;
	if (fuse_is_served(options))
		filter->process_kinds |= 1u << THREAD_FUSE;
	for (unsigned int i = 0; i < options->comm_count; i++)
		strncpy(filter->comms[i], options->comms[i], sizeof(filter->comms[i]) - 1);
	for (unsigned int i = 0; i < options->cgroup_count; i++) {
		int error = cgroup_filter(&filter->cgroups[i], &groups[i], options->cgroups[i]);

		if (error)
			return error;
	}
	return 0;
}

void filter_table_full(struct iostrata *skeleton, enum table table, unsigned int what)
{
	struct full *full = &skeleton->bss->full[table];

	__atomic_fetch_add(&full->count, 1, __ATOMIC_RELAXED);
	full->last = what;
}

int filter_find_thread(const struct iostrata *skeleton, pid_t tid)
{
	unsigned int first = (tid & (THREAD_SETS - 1)) * THREAD_WAYS;

	for (unsigned int place = first; place < first + THREAD_WAYS; place++) {
		if (skeleton->bss->thread_owner[place] == (unsigned int)tid)
			return (int)place;
	}
	return -ENOENT;
}

/* As thread_add() in BPF, and safe beside it. */
int filter_add_thread(struct iostrata *skeleton, struct thread *threads, pid_t tid, pid_t tgid,
		      unsigned int kind)
{
	unsigned int first = (tid & (THREAD_SETS - 1)) * THREAD_WAYS;

	if (filter_find_thread(skeleton, tid) >= 0)
		return 0;
	for (unsigned int way = 0; way < THREAD_WAYS; way++) {
		unsigned int none = 0;

		if (!__atomic_compare_exchange_n(&skeleton->bss->thread_owner[first + way], &none,
						 tid, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			continue;
		threads[first + way].tgid = tgid;
		threads[first + way].kind = kind;
		return 0;
	}
	filter_table_full(skeleton, TABLE_THREADS, tid);
	return -ENOSPC;
}

/* Whether it is io_uring's own, in which the kernel works for the process. */
static bool works_for_process(pid_t tid)
{
	unsigned int flags;

	return task_state(tid, &flags) && flags & PF_IO_WORKER;
}

/* All threads of a process, and of its descendants down to a depth. */
int filter_add_process(struct iostrata *skeleton, struct thread *threads, pid_t pid,
		       unsigned int kind, unsigned int depth)
{
	struct dirent *entry;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	if (!tasks)
		return -errno;
	while ((entry = readdir(tasks))) {
		pid_t tid = atoi(entry->d_name), child;
		char children[128];
		FILE *list;

		if (tid <= 0)
			continue;
		if (filter_find_thread(skeleton, tid) < 0 &&
		    filter_add_thread(skeleton, threads, tid, pid,
				      works_for_process(tid) ? THREAD_WORKER : kind))
			warn("too many threads: thread %d is not recorded", tid);
		snprintf(children, sizeof(children), "/proc/%d/task/%d/children", pid, tid);
		list = depth ? fopen(children, "re") : NULL;
		while (list && fscanf(list, "%d", &child) == 1)
			filter_add_process(skeleton, threads, child, kind, depth - 1);
		if (list)
			fclose(list);
	}
	closedir(tasks);
	return 0;
}

/* The process that a thread is of, by any of whose threads' numbers /proc has all of it; the number
 * itself where that is not told. */
static pid_t process_of(pid_t tid)
{
	char path[64], line[128];
	pid_t tgid = tid;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status) && sscanf(line, "Tgid: %d", &tgid) != 1)
		;
	if (status)
		fclose(status);
	return tgid;
}

/* Twice: what the first pass missed while it was being born, the second finds. */
int filter_add_processes(struct iostrata *skeleton, struct thread *threads,
			 const struct options *options)
{
	for (unsigned int i = 0; i < options->pid_count; i++) {
		pid_t pid = process_of(options->pids[i]);
		int error = filter_add_process(skeleton, threads, pid, 0, DEPTH);

		if (error) {
			fail("--pid %d: %s", options->pids[i],
			     error == -ENOENT ? "no such process" : strerror(-error));
			return error;
		}
		if (pid != options->pids[i])
			warn("--pid %d is a thread of process %d: all of that is recorded",
			     options->pids[i], pid);
		filter_add_process(skeleton, threads, pid, 0, DEPTH);
	}
	return 0;
}
