// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Calls that hang: begun before the recording, and not over at its end, so that no program meets
 * their threads.  When it begins, /proc says in which call each of these sleeps; who is in one that
 * makes durable is looked at again each second, and at the end.  A thread that begins a call is met
 * first, and whether it was is looked at last.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "session.h"
#include "iostrata.skel.h"

#define MAX_HUNG 4096
#define PATIENCE_S 2

/* From linux/sched.h. */
#define PF_EXITING 0x4
#define PF_KTHREAD 0x200000

struct entered {
	unsigned char number; /* CALL_... */
	unsigned long long arguments[6];
	unsigned long long stack;
};

struct hung {
	union event event;
	struct entered call;
	unsigned int unseen; /* enum unseen_kind: why it is not to be recorded; 0: it is */
};

/* By a thread of its own: what holds up those it looks at may hold it up, too. */
static struct search {
	const struct session *session;
	pthread_t thread;
	sem_t end;
	bool begun;
	struct hung found[MAX_HUNG];
	unsigned int count;
	unsigned int hanging; /* of these, those to be recorded */
} search;

/* A file of /proc, of a thread as of a process; false: it is gone. */
static bool look(pid_t tid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t length = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, text, size - 1);
		close(fd);
	}
	text[length < 0 ? 0 : length] = 0;
	return length > 0;
}

/* The call of a thread that sleeps; not of a 32-bit program, whose calls have other numbers, nor
 * one of io_uring's workers, which have somebody else's registers. */
static bool is_in_call(pid_t tid, struct entered *call)
{
	unsigned long long *of = call->arguments, place;
	char text[256];
	int number;

	*call = (struct entered){};
	if (!look(tid, "syscall", text, sizeof(text)) || !isdigit(text[0]))
		return false;
	if (sscanf(text, "%d %llx %llx %llx %llx %llx %llx %llx %llx", &number, &of[0], &of[1],
		   &of[2], &of[3], &of[4], &of[5], &call->stack, &place) != 9)
		return false;
	call->number = call_numbered(number);
	return call->number && (call->stack >> 32 || place >> 32);
}

char task_state(pid_t tid, unsigned int *flags)
{
	char text[512], *behind;

	if (!look(tid, "stat", text, sizeof(text)))
		return 0;
	behind = strrchr(text, ')');
	if (!behind || sscanf(behind, ") %*c %*d %*d %*d %*d %*d %u", flags) != 1)
		return 0;
	return behind[2];
}

/* Whether it waits for something else on its way into, or out of, the call. */
static bool is_held(pid_t tid)
{
	static const char *const places[] = {
		"do_signal_stop", "ptrace_",    "get_signal", "do_freezer_trap", "__refrigerator",
		"pipe_write",     "anon_pipe_", "fifo_open",  "seccomp_",        "__seccomp",
	};
	unsigned int flags;
	char text[512], state = task_state(tid, &flags);

	if (!state || strchr("TtZX", state))
		return true;
	if (flags & (PF_EXITING | PF_IO_WORKER | PF_KTHREAD))
		return true;
	look(tid, "wchan", text, sizeof(text));
	for (unsigned int i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (!strncmp(text, places[i], strlen(places[i])))
			return true;
	}
	return false;
}

static bool has_name(const struct filter *filter, pid_t pid)
{
	char text[64];

	look(pid, "comm", text, sizeof(text));
	text[strcspn(text, "\n")] = 0;
	for (unsigned int i = 0; i < filter->comm_count; i++) {
		if (!strncmp(text, filter->comms[i], sizeof(filter->comms[i])))
			return true;
	}
	return false;
}

/* Whether a path of version 2 is of a group, or of one below it. */
static bool is_below(const char *group, unsigned int level_below, unsigned long long id)
{
	static const char *const roots[] = { CGROUP_ROOT, CGROUP_ROOT "/unified" };
	size_t length = 0;
	struct stat status;

	for (unsigned int level = 0; level < level_below; level++) {
		while (group[length] == '/')
			length++;
		if (!group[length])
			return false;
		length += strcspn(group + length, "/");
	}
	for (unsigned int i = 0; i < 2; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s%.*s", roots[i], (int)length, group);
		if (!stat(path, &status) && status.st_ino == id)
			return true;
	}
	return false;
}

static bool has_cgroup(const struct session *session, pid_t tid)
{
	const struct filter *filter = &session->filter;
	char text[PATH_MAX], *group;

	if (!look(tid, "cgroup", text, sizeof(text)))
		return false;
	group = strncmp(text, "0::", 3) ? strstr(text, "\n0::") : text;
	group = group ? strchr(group, '/') : NULL;
	if (!group)
		return false;
	group[strcspn(group, "\n")] = 0;
	for (unsigned int i = 0; i < filter->cgroup_count; i++) {
		if (is_below(group, filter->cgroups[i].level,
			     session->probes.skeleton->bss->chosen_cgroups[i]))
			return true;
	}
	return false;
}

static bool is_chosen(const struct session *session, pid_t tid, pid_t tgid)
{
	const struct filter *filter = &session->filter;

	if (filter->comm_count && !has_name(filter, tid) && !has_name(filter, tgid))
		return false;
	return !filter->cgroup_count || has_cgroup(session, tid);
}

static bool is_option(const char *options, const char *option)
{
	size_t length = strlen(option);

	for (; options; options = strchr(options, ',')) {
		options += *options == ',';
		if (!strncmp(options, option, length) && strchr(",\n", options[length]))
			return true;
	}
	return false;
}

/* The superblock's device, and whether all of it is synchronous, of a mount by its number. */
static void look_at_mount(pid_t tid, int mount, union event *e)
{
	unsigned int major_number, minor_number;
	char path[64], line[4096];
	FILE *mounts;
	int number;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", tid);
	mounts = fopen(path, "re");
	while (mounts && fgets(line, sizeof(line), mounts)) {
		const char *kind = strstr(line, " - "), *options = strrchr(line, ' ');

		if (sscanf(line, "%d %*d %u:%u", &number, &major_number, &minor_number) != 3 ||
		    number != mount || !kind)
			continue;
		e->syscall_cut.dev = major_number << 20 | minor_number;
		/* What a 9p mount is sent is not durable by that (file.bpf.c). */
		if (strncmp(kind, " - 9p ", 6) && is_option(options + 1, "sync"))
			e->syscall_cut.open_flags |= OPEN_OF_SYNC_INODE;
		break;
	}
	if (mounts)
		fclose(mounts);
}

/* False: no file, nor a disk.  Nothing is asked of the file's own system, which may hang. */
static bool look_at_file(pid_t tid, unsigned int descriptor, union event *e)
{
	char name[64], path[64], text[PATH_MAX];
	struct stat status;
	const char *at;
	ssize_t length;
	int mount;

	snprintf(path, sizeof(path), "/proc/%d/fd/%u", tid, descriptor);
	length = readlink(path, text, sizeof(text) - 1);
	text[length < 0 ? 0 : length] = 0;
	if (text[0] != '/')
		return false;
	if (!strncmp(text, "/dev/", 5) && !stat(text, &status) && !S_ISREG(status.st_mode)) {
		if (!S_ISBLK(status.st_mode))
			return false;
		e->syscall_cut.open_flags = OPEN_OF_DEVICE;
		e->syscall_cut.dev = major(status.st_rdev) << 20 | minor(status.st_rdev);
		e->syscall_cut.inode = e->syscall_cut.dev;
	}
	snprintf(name, sizeof(name), "fdinfo/%u", descriptor);
	if (!look(tid, name, text, sizeof(text)) || !(at = strstr(text, "flags:")))
		return false;
	e->syscall_cut.open_flags |= strtoul(at + 6, NULL, 8) & ~(unsigned int)O_CLOEXEC;
	if (e->syscall_cut.dev)
		return true;
	at = strstr(text, "mnt_id:");
	mount = at ? atoi(at + 7) : 0;
	at = strstr(text, "ino:");
	e->syscall_cut.inode = at ? strtoull(at + 4, NULL, 10) : 0;
	look_at_mount(tid, mount, e);
	return true;
}

static unsigned int descriptor_of(const struct entered *call)
{
	bool third = call->number == CALL_SPLICE || call->number == CALL_COPY_FILE_RANGE;

	return call->arguments[third ? 2 : 0];
}

static unsigned char flags_of(const struct entered *call)
{
	switch (call->number) {
	case CALL_SYNC_FILE_RANGE:
		return call->arguments[3];
	case CALL_PWRITEV2:
		return call->arguments[5];
	case CALL_FALLOCATE:
		return call->arguments[1];
	case CALL_MSYNC:
		return call->arguments[2];
	}
	return 0;
}

/* As cut_is_durable() in BPF. */
static bool is_durable(pid_t tid, struct hung *hung)
{
	union event *e = &hung->event;
	unsigned char call = hung->call.number;

	if (call == CALL_SYNC || call == CALL_MSYNC)
		return call == CALL_SYNC || hung->call.arguments[2] & MS_SYNC;
	if (!look_at_file(tid, descriptor_of(&hung->call), e))
		return false;
	return !call_may_be_plain(call) || e->syscall_cut.open_flags & durable_flags(call) ||
	       (call == CALL_PWRITEV2 && e->syscall_cut.rwf);
}

/* Whether --device has it recorded; what it cannot tell of is kept, to be said. */
static bool is_on_device(struct hung *hung)
{
	const struct session *session = search.session;
	int allowed = devices_allow(session->probes.skeleton, hung->event.syscall_cut.dev);

	if (!session->filter.device)
		return true;
	if (hung->call.number == CALL_SYNC)
		hung->unseen = UNSEEN_SYNC;
	else if (hung->call.number == CALL_MSYNC || allowed < 0)
		hung->unseen = UNSEEN_UNDECIDED;
	return hung->unseen || allowed;
}

/* Whether no program has met it, which is to be recorded. */
static bool is_unmet(pid_t tid)
{
	const struct session *session = search.session;
	int place = filter_find_thread(session->probes.skeleton, tid);

	if (place < 0)
		return !session->filter.tree;
	return !session->threads[place].met && session->threads[place].kind <= THREAD_TARGET;
}

static void look_at_thread(pid_t tid, pid_t tgid)
{
	struct hung *hung = &search.found[search.count];

	*hung = (struct hung){};
	if (!is_unmet(tid) || !is_in_call(tid, &hung->call) || is_held(tid) ||
	    !is_chosen(search.session, tid, tgid))
		return;
	hung->event = (union event){ .syscall_cut = {
					     .tid = tid,
					     .offset_bytes = -1,
					     .result = -EINPROGRESS,
					     .tgid = tgid,
					     .call = hung->call.number,
					     .rwf = flags_of(&hung->call),
				     } };
	if (is_durable(tid, hung) && is_on_device(hung) && search.count < MAX_HUNG - 1)
		search.count++;
}

static void look_at_process(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		if (atoi(entry->d_name) > 0)
			look_at_thread(atoi(entry->d_name), pid);
	}
	if (tasks)
		closedir(tasks);
}

static void look_at_all(void)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;

	while (processes && (entry = readdir(processes))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && pid != getpid())
			look_at_process(pid);
	}
	if (processes)
		closedir(processes);
}

static void look_at_tree(void)
{
	const struct session *session = search.session;

	for (unsigned int i = 0; i < MAX_THREADS; i++) {
		pid_t tid = (pid_t)session->probes.skeleton->bss->thread_owner[i];

		if (tid)
			look_at_thread(tid, (pid_t)session->threads[i].tgid);
	}
}

static bool still_hangs(const struct hung *hung)
{
	pid_t tid = (pid_t)hung->event.syscall_cut.tid;
	struct entered now;

	return is_in_call(tid, &now) && now.number == hung->call.number &&
	       now.stack == hung->call.stack &&
	       !memcmp(now.arguments, hung->call.arguments, sizeof(now.arguments)) &&
	       !is_held(tid) && is_unmet(tid);
}

/* Leaves those that do. */
static void look_again(void)
{
	unsigned int count = 0, hanging = 0;

	for (unsigned int i = 0; i < search.count; i++) {
		if (!still_hangs(&search.found[i]))
			continue;
		hanging += !search.found[i].unseen;
		search.found[count++] = search.found[i];
	}
	search.count = count;
	__atomic_store_n(&search.hanging, hanging, __ATOMIC_RELAXED);
}

static struct timespec in_seconds(unsigned int count)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_sec += count;
	return time;
}

static void *run(void *argument)
{
	struct timespec next;

	if (search.session->filter.tree)
		look_at_tree();
	else
		look_at_all();
	do {
		look_again();
		next = in_seconds(1);
	} while (search.count && sem_timedwait(&search.end, &next));
	look_again();
	return argument;
}

void hung_begin(const struct session *session)
{
	if (!(session->options.duties & DUTY_BIT(workload)) || sem_init(&search.end, 0, 0))
		return;
	search.session = session;
	search.begun = !pthread_create(&search.thread, NULL, run, NULL);
}

void hung_follow(const struct session *session)
{
	struct full *unseen = &session->probes.skeleton->bss->unseen[UNSEEN_HANGING];

	unseen->count = __atomic_load_n(&search.hanging, __ATOMIC_RELAXED);
}

void hung_tell(struct session *session)
{
	const struct timespec until = in_seconds(PATIENCE_S);

	if (!search.begun)
		return;
	sem_post(&search.end);
	if (pthread_timedjoin_np(search.thread, NULL, &until)) {
		warn("which calls have hung since before the recording is not known: to look at "
		     "all threads took too long");
		return;
	}
	/* Who found no place in the table was not met, whatever he did. */
	if (session->probes.skeleton->bss->full[TABLE_THREADS].count)
		return;
	for (unsigned int i = 0; i < search.count; i++) {
		struct hung *hung = &search.found[i];

		hung->event.syscall_cut.time_ns = session->rings.ending_ns;
		if (hung->unseen)
			session->probes.skeleton->bss->unseen[hung->unseen].count++;
		else
			own_event(&session->rings, &hung->event, POINT_syscall_cut, RECORDER_CPU);
	}
	own_unseen(&session->rings);
}
