// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What this machine does (duties.h): which programs it takes, and who does it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probes.h"

#define PROGRAMS 4
#define LOOKS 20
#define YOUNG_S 20
#define FRESH_NS 500000000

static const struct duty {
	const char *name;
	unsigned int kind; /* enum thread_kind */
	const char *kernel_thread;
	const char *executable;
	const char *descriptor;
	const char *module;
	const char *programs[PROGRAMS];
} duties[] = {
#define DUTY_ENTRY(n, ...) { .name = #n, __VA_ARGS__ },
	DUTIES(DUTY_ENTRY)
};

static bool is_asked(unsigned int asked, unsigned int number)
{
	return asked >> number & 1;
}

/* What all threads of a process do. */
static bool is_of_process(const struct duty *duty)
{
	return duty->executable || duty->descriptor;
}

int duties_number(const char *name)
{
	for (unsigned int i = 0; i < DUTY_count; i++) {
		if (!strcmp(duties[i].name, name))
			return i;
	}
	return -ENOENT;
}

const char *duties_name(unsigned int number)
{
	return duties[number].name;
}

const char *duties_executable(unsigned int number)
{
	return duties[number].executable;
}

static bool names(const struct duty *duty, const struct probe *probe)
{
	for (unsigned int i = 0; i < PROGRAMS && duty->programs[i]; i++) {
		if (!strcmp(probe->layer, duty->programs[i]) ||
		    !strcmp(probe->program, duty->programs[i]))
			return true;
	}
	return false;
}

bool duties_want(unsigned int asked, const struct probe *probe)
{
	bool named = false;

	for (unsigned int i = 0; i < DUTY_count; i++) {
		if (!names(&duties[i], probe))
			continue;
		if (is_asked(asked, i))
			return true;
		named = true;
	}
	return !named;
}

void duties_tell(unsigned int asked, struct filter *filter)
{
	filter->duties = asked;
	for (unsigned int i = 0; i < DUTY_count; i++) {
		struct duty_filter *told = &filter->duty[i];
		const struct duty *duty = &duties[i];
		const char *name = duty->executable ? duty->executable : duty->kernel_thread;

		if (!is_asked(asked, i))
			continue;
		if (is_of_process(duty))
			filter->process_kinds |= 1u << duty->kind;
		told->kind = duty->kind;
		told->process = duty->executable != NULL;
		strncpy(told->comm, name ? name : "", sizeof(told->comm) - 1);
	}
}

/* Where a link of /proc leads to, without the mark of what was removed since; "": nowhere. */
static void read_target(int directory, const char *name, char *target, size_t size)
{
	ssize_t length = readlinkat(directory, name, target, size - 1);
	char *removed;

	target[length < 0 ? 0 : length] = 0;
	removed = strstr(target, " (deleted)");
	if (removed)
		*removed = 0;
}

static bool holds(const char *pid, const char *descriptor)
{
	char path[64], target[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *descriptors;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	descriptors = opendir(path);
	while (descriptors && !found && (entry = readdir(descriptors))) {
		read_target(dirfd(descriptors), entry->d_name, target, sizeof(target));
		found = !strcmp(target, descriptor);
	}
	if (descriptors)
		closedir(descriptors);
	return found;
}

static bool executes(const char *pid, const char *executable)
{
	char path[64], target[PATH_MAX];
	const char *slash;

	snprintf(path, sizeof(path), "/proc/%s/exe", pid);
	read_target(AT_FDCWD, path, target, sizeof(target));
	slash = strrchr(target, '/');
	return slash && !strcmp(slash + 1, executable);
}

static bool has_duty(const char *pid, const struct duty *duty)
{
	return (duty->executable && executes(pid, duty->executable)) ||
	       (duty->descriptor && holds(pid, duty->descriptor));
}

/* Whether a process may have the duty: without the module, nothing is looked into. */
static bool is_possible(const struct duty *duty)
{
	char path[64];

	if (!is_of_process(duty))
		return false;
	snprintf(path, sizeof(path), "/sys/module/%s", duty->module ? duty->module : "");
	return !duty->module || !access(path, F_OK);
}

int duties_each(unsigned int number, void (*found)(pid_t pid, void *context), void *context)
{
	const struct duty *duty = &duties[number];
	struct dirent *entry;
	DIR *processes;

	if (!is_possible(duty))
		return 0;
	processes = opendir("/proc");
	if (!processes) {
		int error = -errno;

		fail("/proc cannot be read: %s", strerror(errno));
		return error;
	}
	while ((entry = readdir(processes))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && has_duty(entry->d_name, duty))
			found(pid, context);
	}
	closedir(processes);
	return 0;
}

/* A process as it was looked into last. */
struct process {
	pid_t pid;
	unsigned int duties; /* as bits */
	unsigned int looks;  /* how often more its descriptors are looked through */
	uint64_t executable; /* a hash of its path: another's were another's */
};

static struct known {
	struct process *list; /* in order of the pid, as /proc is */
	unsigned int count;
	unsigned int room;
	uint64_t next_ns; /* when they are looked at anew; 0: they never were */
} known;

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	while (*text)
		hash = (hash ^ (unsigned char)*text++) * 0x100000001b3;
	return hash;
}

static unsigned int duties_by_executable(const char *path)
{
	const char *slash = strrchr(path, '/');
	unsigned int found = 0;

	for (unsigned int i = 0; slash && i < DUTY_count; i++) {
		if (duties[i].executable && !strcmp(slash + 1, duties[i].executable))
			found |= 1u << i;
	}
	return found;
}

static bool is_young(const char *pid)
{
	char path[64], line[1024] = {};
	const char *field = NULL;
	struct timespec now;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	in = fopen(path, "re");
	if (!in)
		return false;
	/* The second may hold anything; the 22nd is when it began, in ticks. */
	if (fgets(line, sizeof(line), in))
		field = strrchr(line, ')');
	for (unsigned int number = 2; field && number < 22; number++)
		field = strchr(field + 1, ' ');
	fclose(in);
	clock_gettime(CLOCK_BOOTTIME, &now);
	return field && strtoll(field, NULL, 10) / sysconf(_SC_CLK_TCK) + YOUNG_S > now.tv_sec;
}

/* A process has them from soon after its begin, or never: all of them are many to look through, and
 * of those that were there before us a few thousand may have a thousand each. */
static unsigned int looks_at(const char *pid)
{
	return known.next_ns || is_young(pid) ? LOOKS : 1;
}

static void look_through_descriptors(struct process *process, unsigned int wanted, const char *pid)
{
	for (unsigned int i = 0; i < DUTY_count; i++) {
		if (is_asked(wanted, i) && duties[i].descriptor && is_possible(&duties[i]) &&
		    holds(pid, duties[i].descriptor))
			process->duties |= 1u << i;
	}
	process->looks = process->duties ? 0 : process->looks - 1;
}

static bool append(struct known *to, const struct process *process)
{
	if (to->count == to->room) {
		unsigned int room = to->room ? 2 * to->room : 256;
		struct process *list = realloc(to->list, room * sizeof(*list));

		if (!list)
			return false;
		to->list = list;
		to->room = room;
	}
	to->list[to->count++] = *process;
	return true;
}

static void look_at_all(unsigned int wanted)
{
	struct known now = {};
	uint64_t begin_ns = now_ns();
	DIR *processes = opendir("/proc");
	char path[64], target[PATH_MAX];
	struct dirent *entry;
	unsigned int next = 0;

	while (processes && (entry = readdir(processes))) {
		struct process process = { .pid = atoi(entry->d_name) };
		const struct process *before;

		if (process.pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%s/exe", entry->d_name);
		read_target(AT_FDCWD, path, target, sizeof(target));
		process.executable = hash_of(target);
		while (next < known.count && known.list[next].pid < process.pid)
			next++;
		before = next < known.count ? &known.list[next] : NULL;
		if (before && before->pid == process.pid &&
		    before->executable == process.executable)
			process = *before;
		/* A kernel thread executes nothing, and has nothing open. */
		else if (target[0]) {
			process.duties = duties_by_executable(target);
			process.looks = looks_at(entry->d_name);
		}
		if (process.looks)
			look_through_descriptors(&process, wanted, entry->d_name);
		if (!append(&now, &process))
			break;
	}
	if (processes)
		closedir(processes);
	/* There may be very many: it is a twentieth of the time that they are looked at. */
	now.next_ns = begin_ns + FRESH_NS + 20 * (now_ns() - begin_ns);
	free(known.list);
	known = now;
}

void duties_follow(unsigned int wanted,
		   void (*found)(pid_t pid, unsigned int duties, void *context), void *context)
{
	if (!wanted)
		return;
	if (now_ns() > known.next_ns)
		look_at_all(wanted);
	for (unsigned int i = 0; i < known.count; i++) {
		if (known.list[i].duties & wanted)
			found(known.list[i].pid, known.list[i].duties, context);
	}
}

struct addition {
	struct iostrata *skeleton;
	struct thread *threads;
	unsigned int kind;
};

static void add(pid_t pid, void *context)
{
	const struct addition *to = context;

	/* Twice: what the first pass missed while it was being born, the second finds. */
	filter_add_process(to->skeleton, to->threads, pid, to->kind, 0);
	filter_add_process(to->skeleton, to->threads, pid, to->kind, 0);
}

int duties_add(unsigned int asked, struct iostrata *skeleton, struct thread *threads)
{
	struct addition to = { skeleton, threads, 0 };
	int error = 0;

	for (unsigned int i = 0; !error && i < DUTY_count; i++) {
		to.kind = duties[i].kind;
		if (is_asked(asked, i))
			error = duties_each(i, add, &to);
	}
	return error;
}
