// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* While it records: drains, writes, tells, and sees what ends it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "session.h"
#include "iostrata.skel.h"

#define DRAIN_MAX_MS 20 /* between two looks at rings that wake nobody */
#define WAKE_MAX_MS 100 /* and at rings that wake us */
#define WRITE_NS 250000000ull
#define DISKS_NS 200000000ull
#define GRACE_NS (2 * NSEC_PER_SEC)

int loop_block_signals(struct session *session)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit of files' sizes is told as a full disk is */
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	session->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return session->signal_fd < 0 ? -errno : 0;
}

static void end_for(struct session *session, enum end_reason reason)
{
	if (!session->reason)
		session->reason = reason;
}

static bool command_runs(const struct session *session)
{
	const struct command *command = &session->command;

	return command->pid && command->go_fd < 0 && !command->ended;
}

/* The first time asks the command to end and waits for it, the second does not wait. */
static void ask_to_end(struct session *session, int signal_number, enum end_reason reason)
{
	end_for(session, reason);
	if (!command_runs(session) || session->give_up_ns) {
		session->stop = true;
		return;
	}
	/* Who sends that one, a terminal, sends it to the command as well. */
	command_ask(&session->command, signal_number == SIGINT ? 0 : signal_number);
	session->give_up_ns = now_ns() + GRACE_NS;
}

static void take_signals(struct session *session)
{
	struct signalfd_siginfo info;

	while (read(session->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (!session->ending_signal)
			session->ending_signal = info.ssi_signo;
		ask_to_end(session, info.ssi_signo, END_ASKED);
	}
}

bool loop_asked_to_end(struct session *session)
{
	take_signals(session);
	return session->stop;
}

void loop_go(struct session *session)
{
	if (!session->command.pid || session->command.go_fd < 0)
		return;
	/* Who was asked to end meanwhile lets nothing begin. */
	if (loop_asked_to_end(session))
		return;
	session->begin_ns = now_ns();
	session->go_error = command_go(&session->command);
	if (session->go_error)
		session->stop = true;
}

static void take_control(struct session *session, bool readable)
{
	struct control *control = &session->control;
	enum end_reason reason;

	if ((!readable || control_answer(control)) && !control_silent(control)) {
		if (control->go)
			loop_go(session);
		return;
	}
	reason = control_silent(control) ? END_ABANDONED : END_ASKED;
	control_close(control);
	if (!session->give_up_ns)
		ask_to_end(session, SIGTERM, reason);
}

/* A pipe that nobody reads any more: who had started us is dead, and could not say so. */
static void take_status(struct session *session, const struct pollfd *status)
{
	if (!(status->revents & POLLERR))
		return;
	session->abandoned = true;
	if (!session->give_up_ns)
		ask_to_end(session, SIGTERM, END_ABANDONED);
}

void loop_tell(const struct session *session)
{
	const struct rings *rings = &session->rings;

	status_line("progress %llu %llu %.1f", (unsigned long long)rings->event_count,
		    (unsigned long long)rings_lost(rings) + rings->missed_count,
		    (now_ns() - session->begin_ns) / (double)NSEC_PER_SEC);
}

/* A disk that is gone by the end would have lain on nobody knows what, and what it lies on is to be
 * recorded.  Many may change at once, and there may be very many of them: it is a twentieth of the
 * time that they are looked at. */
static void follow_disks(struct session *session, uint64_t now)
{
	if (!session->disks_changed || now < session->disks_at_ns)
		return;
	session->disks_changed = false;
	/* What cannot be written now cannot be at the end either, and is said then. */
	facts_follow_disks(&session->blocks, session->directory_fd);
	devices_follow(session->probes.skeleton, &session->blocks);
	session->disks_at_ns = now + DISKS_NS + 20 * (now_ns() - now);
}

static void each_second(struct session *session)
{
	struct rings *rings = &session->rings;

	own_clock(rings);
	uprobes_follow(&session->probes);
	own_probes(rings, &session->probes);
	own_losses(rings);
	own_full(rings);
	hung_follow(session);
	own_unseen(rings);
	own_recorder(rings, false);
	cgroups_follow(session->probes.skeleton->bss->cgroups);
	if (session->stats_fd >= 0)
		own_costs(rings);
	loop_tell(session);
}

static void check_end(struct session *session, uint64_t now)
{
	const struct options *options = &session->options;

	if (command_reap(&session->command)) {
		end_for(session, END_COMMAND);
		session->stop = true;
	}
	if (options->duration_s > 0 &&
	    now - session->begin_ns >= options->duration_s * NSEC_PER_SEC) {
		end_for(session, END_DURATION);
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
	if (output_gone(session->directory_fd))
		return -ENOENT;
	anew_follow(session);
	return rings_write(&session->rings, false);
}

/* Waits, and takes what others ask for. */
static void listen(struct session *session, int wake_fd, int limit_ms)
{
	struct pollfd waits[] = {
		{ .fd = session->signal_fd, .events = POLLIN },
		{ .fd = session->control.fd, .events = POLLIN },
		{ .fd = wake_fd, .events = POLLIN },
		{ .fd = session->abandoned ? -1 : status_fd() },
		{ .fd = session->uevents_fd, .events = POLLIN },
		{ .fd = session->mounts_fd, .events = POLLPRI },
	};

	poll(waits, sizeof(waits) / sizeof(*waits), limit_ms);
	take_status(session, &waits[3]);
	take_control(session, waits[1].revents);
	take_signals(session);
	if (waits[4].revents)
		session->disks_changed |= uevents_of_disks(session->uevents_fd);
	/* The kernel says it once of each change. */
	session->disks_changed |= waits[5].revents != 0;
	check_end(session, now_ns());
}

void loop_wait(struct session *session)
{
	if (!session->stop && command_runs(session))
		warn("the trace cannot be written: the command goes on, and is not recorded");
	while (!session->stop && command_runs(session))
		listen(session, -1, WAKE_MAX_MS);
}

int loop_record(struct session *session)
{
	int interval_ms = DRAIN_MAX_MS;

	session->write_at_ns = now_ns() + WRITE_NS;
	session->second_at_ns = now_ns() + NSEC_PER_SEC;
	while (!session->stop) {
		int full, error;

		listen(session, rings_wake_fd(&session->rings),
		       session->kernel.has_cmpxchg ? WAKE_MAX_MS : interval_ms);
		occasions_follow(session);
		loop_devices_follow(session);
		library_follow(session);
		follow_disks(session, now_ns());
		full = rings_drain(&session->rings);
		if (full < 0)
			return full;
		interval_ms = next_interval_ms(interval_ms, full);
		misses_follow(&session->rings, now_ns());
		error = write_when_due(session, now_ns());
		if (error)
			return error;
	}
	return 0;
}
