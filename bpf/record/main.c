// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* iostrata-record: a command's synchronous writes, as a CTF trace. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "record.h"
#include "iostrata.skel.h"

#define DRAIN_MAX_MS 20 /* between two looks at rings that wake nobody */
#define WAKE_MAX_MS 100 /* and at rings that wake us */
#define WRITE_NS 250000000ull
#define GRACE_NS (2 * NSEC_PER_SEC)

struct session {
	struct options options;
	struct kernel kernel;
	struct filter filter;
	struct facts facts;
	struct probes probes;
	struct metadata metadata;
	struct rings rings;
	struct command command;
	struct thread *threads; /* BPF's table, mapped */
	int directory_fd;
	int signal_fd;
	int stats_fd;
	uint64_t begin_ns;
	uint64_t write_at_ns;
	uint64_t second_at_ns;
	uint64_t give_up_ns; /* wait for the command until then; 0: no end was asked for */
	bool stop;
};

/* Online CPUs are numbered below this. */
static unsigned int cpu_limit(void)
{
	unsigned int first, last = 0, limit = 1;
	FILE *online = fopen("/sys/devices/system/cpu/online", "re");

	while (online && fscanf(online, "%u", &first) == 1) {
		last = first;
		if (fscanf(online, "-%u", &last) == 1)
			first = last;
		if (last + 1 > limit)
			limit = last + 1;
		if (fgetc(online) != ',')
			break;
	}
	if (online)
		fclose(online);
	return limit < MAX_CPUS ? limit : MAX_CPUS;
}

/* Room for 30 ms of a core that does nothing but write, on large machines as much
 * as 256 MiB give to each CPU. */
static unsigned int default_buffer_kib(unsigned int cpus)
{
	unsigned int kib = 4096;

	while (kib > 512 && kib * cpus > 256 * 1024)
		kib /= 2;
	return kib;
}

/* Everything that BPF must know before its programs are verified. */
static int prepare(struct iostrata *skeleton, void *context)
{
	struct session *session = context;
	unsigned int cpus = session->rings.cpu_count, bytes = 4096, slots;
	int error;

	if (!session->options.buffer_kib)
		session->options.buffer_kib = default_buffer_kib(cpus);
	slots = session->options.buffer_kib * 1024 / EVENT_BYTES;

	kernel_tell(&session->kernel, skeleton);
	memcpy((void *)&skeleton->rodata->filter, &session->filter, sizeof(session->filter));
	skeleton->rodata->ring_slots = slots;
	skeleton->rodata->ring_shift = __builtin_ctz(slots);
	if (session->kernel.has_cmpxchg) {
		error = bpf_map__set_max_entries(skeleton->maps.slots, slots * cpus);
	} else {
		while (bytes < session->options.buffer_kib * 1024 * cpus)
			bytes *= 2;
		error = bpf_map__set_max_entries(skeleton->maps.ringbuf, bytes);
	}
	return error ? error : filter_devices(skeleton, &session->options, &session->facts);
}

static void explain_load(int error)
{
	if (geteuid())
		fail("recording needs root (eBPF was refused: %s); try sudo", strerror(-error));
	else if (access("/sys/kernel/btf/vmlinux", R_OK))
		fail("this kernel has no BTF (/sys/kernel/btf/vmlinux): it must be built with "
		     "CONFIG_DEBUG_INFO_BTF=y, as distributions' kernels since 2021 are");
	else
		fail("eBPF programs cannot be loaded: %s; is CAP_BPF dropped (a container), or BPF "
		     "forbidden by lockdown=confidentiality?",
		     strerror(-error));
}

static int load(struct session *session)
{
	int error = facts_collect(&session->facts);

	session->rings.cpu_count = cpu_limit();
	if (error) {
		fail("/sys/class/block cannot be read: %s; is sysfs mounted?", strerror(-error));
		return error;
	}
	error = filter_fill(&session->filter, &session->options);
	if (error)
		return error;
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	error = geteuid() ? -EPERM : kernel_open(&session->kernel);
	if (!error) {
		if (session->options.ringbuf)
			session->kernel.has_cmpxchg = false;
		session->probes.has_cmpxchg = session->kernel.has_cmpxchg;
		kernel_mount_tracefs();
		error = probes_load(&session->probes, &session->options, prepare, session);
	}
	if (error && error != -ENODEV)
		explain_load(error);
	return error;
}

static bool attached_any(const struct probes *probes)
{
	for (unsigned int i = 0; i < probes->count; i++) {
		if (probes->list[i].wanted && !probes->list[i].error)
			return true;
	}
	return false;
}

static int map_threads(struct session *session)
{
	session->threads = mmap(NULL, MAX_THREADS * sizeof(struct thread), PROT_READ | PROT_WRITE,
				MAP_SHARED, bpf_map__fd(session->probes.skeleton->maps.threads), 0);
	if (session->threads == MAP_FAILED) {
		session->threads = NULL;
		fail("the table of threads cannot be mapped: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

static uint64_t realtime_offset_ns(void)
{
	struct timespec realtime, monotonic;

	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	clock_gettime(CLOCK_REALTIME, &realtime);
	return (realtime.tv_sec - monotonic.tv_sec) * NSEC_PER_SEC + realtime.tv_nsec -
	       monotonic.tv_nsec;
}

/* metadata, facts, the stream files, the recorder's first events */
static int begin_trace(struct session *session)
{
	struct iostrata *skeleton = session->probes.skeleton;
	int error;

	session->metadata.options = &session->options;
	session->metadata.offset_ns = realtime_offset_ns();
	error = writer_start();
	if (error)
		return error;
	if (getrandom(session->metadata.uuid, sizeof(session->metadata.uuid), 0) < 0)
		return -errno;
	error = metadata_write(&session->metadata, bpf_object__btf(skeleton->obj),
			       session->directory_fd);
	if (!error)
		error = facts_write(&session->facts, session->directory_fd);
	if (!error)
		error = rings_open(&session->rings, skeleton, &session->metadata,
				   session->directory_fd);
	if (error) {
		fail("the trace cannot be begun in %s: %s", session->options.directory,
		     strerror(-error));
		return error;
	}
	rings_record(&session->rings, true);
	own_clock(&session->rings);
	own_recorder(&session->rings); /* what setting up cost: not part of recording */
	own_probes(&session->rings, &session->probes);
	return rings_write(&session->rings, false);
}

static int add_targets(struct session *session)
{
	int error = map_threads(session);

	if (error)
		return error;
	if (session->command.pid && session->filter.tree && !session->options.pid_count &&
	    !session->options.path)
		error = filter_add_thread(session->probes.skeleton, session->threads,
					  session->command.pid, session->command.pid);
	return error ? error
		     : filter_add_processes(session->probes.skeleton, session->threads,
					    &session->options);
}

/* Signals are read, not handled: nothing is interrupted. */
static int block_signals(struct session *session)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	session->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return session->signal_fd < 0 ? -errno : 0;
}

static bool command_runs(const struct session *session)
{
	return session->command.pid && !session->command.ended;
}

/* The first asks the command to end and waits for it, a second does not wait. */
static void take_signals(struct session *session)
{
	struct signalfd_siginfo info;

	while (read(session->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (!command_runs(session) || session->give_up_ns) {
			session->stop = true;
			continue;
		}
		if (info.ssi_signo != SIGINT)
			kill(session->command.pid, info.ssi_signo);
		session->give_up_ns = now_ns() + GRACE_NS;
	}
}

static void each_second(struct session *session)
{
	struct rings *rings = &session->rings;

	own_clock(rings);
	own_losses(rings);
	own_recorder(rings);
	if (session->stats_fd >= 0)
		own_costs(rings);
	status_line("progress %llu %llu %.0f", (unsigned long long)rings->event_count,
		    (unsigned long long)rings_lost(rings),
		    (now_ns() - session->begin_ns) / (double)NSEC_PER_SEC);
}

static void check_end(struct session *session, uint64_t now)
{
	const struct options *options = &session->options;

	if (command_reap(&session->command))
		session->stop = true;
	if (options->duration_s > 0 &&
	    now - session->begin_ns >= options->duration_s * NSEC_PER_SEC) {
		session->stop = true;
	}
	if (session->give_up_ns && now >= session->give_up_ns)
		session->stop = true;
}

/* When to look next at rings that nobody wakes us for: sooner when they fill. */
static int next_interval_ms(int interval_ms, int full_percent)
{
	if (full_percent > 25)
		return interval_ms > 1 ? interval_ms / 2 : 1;
	if (full_percent < 10 && interval_ms < DRAIN_MAX_MS)
		return interval_ms + 1;
	return interval_ms;
}

static int write_when_due(struct session *session, uint64_t now)
{
	if (now >= session->second_at_ns) {
		each_second(session);
		session->second_at_ns += NSEC_PER_SEC;
	}
	if (now < session->write_at_ns)
		return 0;
	session->write_at_ns = now + WRITE_NS;
	return rings_write(&session->rings, false);
}

/* Drains until the end; 0 or what made writing fail. */
static int record(struct session *session)
{
	struct pollfd waits[] = {
		{ .fd = session->signal_fd, .events = POLLIN },
		{ .fd = rings_wake_fd(&session->rings), .events = POLLIN },
	};
	int interval_ms = DRAIN_MAX_MS;

	session->write_at_ns = now_ns() + WRITE_NS;
	session->second_at_ns = now_ns() + NSEC_PER_SEC;
	while (!session->stop) {
		int full, error;

		poll(waits, 2, session->kernel.has_cmpxchg ? WAKE_MAX_MS : interval_ms);
		take_signals(session);
		check_end(session, now_ns());
		full = rings_drain(&session->rings);
		if (full < 0)
			return full;
		interval_ms = next_interval_ms(interval_ms, full);
		error = write_when_due(session, now_ns());
		if (error)
			return error;
	}
	return 0;
}

/* No more events; what the rings still hold, and the last of the recorder's own. */
static int end_trace(struct session *session)
{
	struct rings *rings = &session->rings;
	int error;

	if (session->stats_fd >= 0)
		own_costs(rings);
	/* Detaching takes long, and nothing would be drained meanwhile: it comes last. */
	rings_record(rings, false);
	usleep(1000);
	do {
		error = rings_drain(rings);
	} while (error > 0);
	own_losses(rings);
	own_recorder(rings);
	own_clock(rings);
	if (!error)
		error = rings_write(rings, true);
	return error ? error : writer_finish();
}

static int write_failed(const struct session *session, int error)
{
	fail("%s cannot be written: %s; what was recorded until then is kept",
	     session->options.directory, strerror(-error));
	return STATUS_FAILED;
}

/* The command's end, told; a command that outlives the recording is asked to end. */
static int end_command(struct session *session)
{
	struct command *command = &session->command;
	bool by_signal;

	if (!command->pid)
		return 0;
	if (!command_reap(command)) {
		kill(command->pid, SIGTERM);
		if (session->options.duration_s > 0 && !session->give_up_ns)
			return 0;
		return 128 + SIGTERM;
	}
	by_signal = WIFSIGNALED(command->status);
	status_line(by_signal ? "signal %d" : "exit %d",
		    by_signal ? WTERMSIG(command->status) : WEXITSTATUS(command->status));
	return command_exit_status(command);
}

static int say_not_executed(struct session *session, int error)
{
	const char *name = session->options.command[0];

	if (error == -ENOENT) {
		fail("%s: command not found", name);
		return STATUS_NOT_FOUND;
	}
	fail("%s cannot be executed: %s", name, strerror(-error));
	return STATUS_CANNOT_EXECUTE;
}

/* A ring lasts for milliseconds: whatever uses the CPUs, draining comes first. */
static void be_prompt(void)
{
	struct sched_param priority = { .sched_priority = 1 };

	setpriority(PRIO_PROCESS, 0, -20);
	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
}

static int run(struct session *session)
{
	int error = 0, status;

	be_prompt();
	session->begin_ns = now_ns();
	status_line("ready");
	if (session->command.pid) {
		error = command_go(&session->command);
		if (error) {
			status = say_not_executed(session, error);
			end_trace(session);
			return status;
		}
	}
	error = record(session);
	status = end_command(session);
	if (!error)
		error = end_trace(session);
	return error ? write_failed(session, error) : status;
}

static int start(struct session *session)
{
	int error = block_signals(session);

	if (!error && session->options.command)
		error = command_fork(&session->command, session->options.command);
	if (error) {
		fail("the command cannot be prepared: %s", strerror(-error));
		return error;
	}
	error = load(session);
	if (error)
		return error;
	session->directory_fd = output_open(&session->options);
	if (session->directory_fd < 0)
		return session->directory_fd;
	if (session->options.stats)
		session->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	probes_attach(&session->probes);
	if (!attached_any(&session->probes)) {
		fail("no BPF program can be attached; iostrata-record --probes says why");
		return -EOPNOTSUPP;
	}
	error = add_targets(session);
	return error ? error : begin_trace(session);
}

static void finish(struct session *session)
{
	writer_finish();
	command_abandon(&session->command);
	rings_close(&session->rings);
	if (session->threads)
		munmap(session->threads, MAX_THREADS * sizeof(struct thread));
	probes_close(&session->probes);
	facts_free(&session->facts);
	if (session->stats_fd >= 0)
		close(session->stats_fd);
	if (session->directory_fd >= 0)
		close(session->directory_fd);
	if (session->signal_fd >= 0)
		close(session->signal_fd);
}

/* --probes */
static int doctor(struct session *session)
{
	if (load(session))
		return STATUS_FAILED;
	probes_attach(&session->probes);
	return probes_report(&session->probes, stdout) ? STATUS_FAILED : 0;
}

int main(int argc, char **argv)
{
	static struct session session = { .directory_fd = -1, .signal_fd = -1, .stats_fd = -1 };
	int status;

	status = options_parse(&session.options, argc, argv);
	if (status >= 0)
		return status;
	if (session.options.probes)
		status = doctor(&session);
	else
		status = start(&session) ? STATUS_FAILED : run(&session);
	finish(&session);
	return status;
}
