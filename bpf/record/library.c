// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs of the workload that have disks of Ceph by its library: those that had before, and those
 * that the BPF programs have met. */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/libbpf.h>

#include "session.h"
#include "iostrata.skel.h"

/* Of a thread that the library has for each disk (TaskFinisher of librbd/TaskFinisher.h). */
#define THREAD_NAME "taskfin_librbd"

static bool has_name(const char *name, const char *const *names, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		/* The kernel keeps 15 characters. */
		if (!strncmp(name, names[i], 15))
			return true;
	}
	return false;
}

struct threads_found {
	bool library; /* one of them is the library's */
	bool wanted;  /* one of them has a name that was asked for */
};

static struct threads_found look_at_threads(pid_t pid, const struct options *options)
{
	struct threads_found found = { .wanted = !options->comm_count };
	struct dirent *entry;
	char path[300], name[32];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		FILE *in;

		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", pid, entry->d_name);
		in = fopen(path, "re");
		if (in && fgets(name, sizeof(name), in)) {
			name[strcspn(name, "\n")] = 0;
			found.library |= !strcmp(name, THREAD_NAME);
			found.wanted |= has_name(name, (const char *const *)options->comms,
						 options->comm_count);
		}
		if (in)
			fclose(in);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

/* The group that a path of version 2's hierarchy leads through at a level, 0: it does not. */
static unsigned long long group_at(const char *path, unsigned int level)
{
	static const char *const roots[] = { CGROUP_ROOT "/unified", CGROUP_ROOT };
	char place[PATH_MAX + 64];
	const char *end = path;
	struct stat status;

	for (; level && *end && (*end != '/' || end == path || level-- > 1); end++)
		;
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(place, sizeof(place), "%s%.*s", roots[i], (int)(end - path), path);
		if (!stat(place, &status))
			return status.st_ino;
	}
	return 0;
}

static bool is_in_group(pid_t pid, const struct session *session)
{
	const struct filter *filter = &session->filter;
	char path[64], line[PATH_MAX];
	bool found = !filter->cgroup_count;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	in = fopen(path, "re");
	while (in && !found && fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = 0;
		for (unsigned int i = 0; !strncmp(line, "0::", 3) && i < filter->cgroup_count; i++)
			found |= group_at(line + 3, filter->cgroups[i].level) ==
				 session->probes.skeleton->bss->chosen_cgroups[i];
	}
	if (in)
		fclose(in);
	return found;
}

static void look_at(struct session *session, pid_t pid)
{
	int place = filter_find_thread(session->probes.skeleton, pid);
	struct thread *first = place < 0 ? NULL : &session->threads[place];
	struct threads_found found;

	/* Who serves others is no workload; without a tree, whoever the filters fit is. */
	if (first ? first->kind > THREAD_TARGET : session->filter.tree)
		return;
	found = look_at_threads(pid, &session->options);
	if (!found.library ||
	    (!session->filter.tree && !(found.wanted && is_in_group(pid, session))))
		return;
	if (first)
		first->kind = THREAD_LIBRBD;
	else
		filter_add_thread(session->probes.skeleton, session->threads, pid, pid,
				  THREAD_LIBRBD);
	uprobes_meet(&session->probes, pid);
}

void library_begin(struct session *session)
{
	struct dirent *entry;
	DIR *processes;

	if (!session->filter.library)
		return;
	processes = opendir("/proc");
	while (processes && (entry = readdir(processes))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0)
			look_at(session, pid);
	}
	if (processes)
		closedir(processes);
}

/* What they asked for until now is not seen: since when it is, is told. */
void library_follow(struct session *session)
{
	struct bpf_map *users = session->probes.skeleton->maps.library_users;
	union event e = { .unseen = { .count = 1, .kind = UNSEEN_LIBRBD } };
	__u32 pid;

	while (session->filter.library &&
	       !bpf_map__lookup_and_delete_elem(users, NULL, 0, &pid, sizeof(pid), 0)) {
		uprobes_meet(&session->probes, pid);
		e.unseen.dev = pid;
		own_event(&session->rings, &e, POINT_unseen, RECORDER_CPU);
	}
	uprobes_meet_functions(&session->probes);
}
