// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* iostrata-record: a command's synchronous writes, as a CTF trace. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "session.h"
#include "iostrata.skel.h"

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
	session->threads =
		mmap(NULL, (size_t)MAX_THREADS * sizeof(struct thread), PROT_READ | PROT_WRITE,
		     MAP_SHARED, bpf_map__fd(session->probes.skeleton->maps.threads), 0);
	if (session->threads == MAP_FAILED) {
		session->threads = NULL;
		fail("the table of threads cannot be mapped: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

static int add_targets(struct session *session)
{
	struct iostrata *skeleton = session->probes.skeleton;
	int error = map_threads(session);

	/* First those who serve: what they do is not the workload's, even where the filters fit. */
	if (!error)
		error = duties_add(session->options.duties, skeleton, session->threads);
	if (error || !(session->options.duties & DUTY_BIT(workload)))
		return error;
	if (session->command.pid && session->filter.tree && !session->options.pid_count)
		error = filter_add_thread(skeleton, session->threads, session->command.pid,
					  session->command.pid, 0);
	if (!error)
		error = filter_add_processes(skeleton, session->threads, &session->options);
	if (!error)
		library_begin(session);
	return error;
}

static void write_failed(const struct session *session, int error)
{
	const char *directory = session->options.directory;

	if (error == -ENOENT)
		fail("%s was removed, and what was recorded with it", directory);
	else
		fail("%s cannot be written: %s; what was recorded until then is kept", directory,
		     limits_text(error));
}

static const char *signal_name(int number)
{
	return number == SIGINT ? "SIGINT" : number == SIGHUP ? "SIGHUP" : "SIGTERM";
}

/* The command's end, told; a command that outlives the recording is asked to end. */
static int end_command(struct session *session)
{
	struct command *command = &session->command;
	bool by_signal;

	if (!command->pid)
		return 0;
	if (command->go_fd >= 0) {
		/* Who has us begin by a word ends us before it, too. */
		if (session->options.control_fd >= 0)
			return 0;
		fail("%s asked it to end before it let the command begin",
		     signal_name(session->ending_signal));
		return 128 + session->ending_signal;
	}
	if (!command_reap(command)) {
		command_ask(command, SIGTERM);
		if (session->options.duration_s > 0 && !session->give_up_ns)
			return 0;
		return 128 + SIGTERM;
	}
	by_signal = WIFSIGNALED(command->status);
	status_line(by_signal ? "signal %d" : "exit %d",
		    by_signal ? WTERMSIG(command->status) : WEXITSTATUS(command->status));
	return command_exit_status(command);
}

static int say_not_executed(struct session *session)
{
	const char *name = session->options.command[0];

	if (session->go_error == -ENOENT) {
		fail("%s: command not found", name);
		return STATUS_NOT_FOUND;
	}
	fail("%s cannot be executed: %s", name, strerror(-session->go_error));
	return STATUS_CANNOT_EXECUTE;
}

static int run(struct session *session)
{
	int error, status;

	session->begin_ns = now_ns();
	if (session->control.fd < 0)
		loop_go(session);
	if (!session->stop)
		status_line("ready %d", getpid());
	error = loop_record(session);
	if (error) {
		rings_record(&session->rings, false);
		write_failed(session, error);
		loop_wait(session);
	}
	status = session->go_error ? say_not_executed(session) : end_command(session);
	if (!error && (error = trace_end(session)))
		write_failed(session, error);
	loop_tell(session);
	return error ? STATUS_FAILED : status;
}

/* The table of --probes, for a coordinator to decide whether that will do. */
static void tell_probes(const struct probes *probes)
{
	size_t size;
	char *table = NULL, *line, *rest;
	FILE *out = open_memstream(&table, &size);

	if (!out)
		return;
	probes_report(probes, out);
	fclose(out);
	rest = table;
	while ((line = strsep(&rest, "\n")))
		status_line("probe %s", line);
	free(table);
}

/* A ring lasts for milliseconds: whatever uses the CPUs, draining comes first. */
static void be_prompt(void)
{
	struct sched_param priority = { .sched_priority = 1 };

	setpriority(PRIO_PROCESS, 0, -20);
	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
}

static int start(struct session *session)
{
	int error = loop_block_signals(session);

	if (!error && session->options.control_fd >= 0)
		error = control_open(&session->control, session->options.control_fd);
	if (error)
		return error;
	if (session->options.command)
		error = command_fork(&session->command, session->options.command);
	/* What is recorded is nobody else's to read; the command has the mask it was given. */
	umask(077);
	if (error) {
		fail("the command cannot be prepared: %s", strerror(-error));
		return error;
	}
	error = session_load(session);
	if (error)
		return error;
	if (session->options.stats)
		session->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	probes_attach(&session->probes, OCCASION_ALWAYS);
	compat_begin(session);
	loop_devices_begin(session);
	if (session->control.fd >= 0)
		tell_probes(&session->probes);
	if (!attached_any(&session->probes)) {
		fail("no BPF program can be attached; iostrata-record --probes says why");
		return -EOPNOTSUPP;
	}
	error = add_targets(session);
	if (error)
		return error;
	if (session->options.control_fd < 0 && loop_asked_to_end(session)) {
		fail("%s asked it to end before it recorded anything; %s is as it was",
		     signal_name(session->ending_signal), session->options.directory);
		return -ECANCELED;
	}
	/* As late as can be: with --force it replaces what is there. */
	session->directory_fd = output_open(&session->options);
	if (session->directory_fd < 0)
		return session->directory_fd;
	be_prompt();
	/* Before the writer's thread begins, which then has no more. */
	error = privileges_drop(&session->options);
	return error ? error : trace_begin(session);
}

/* The recording is whole: nothing of it, nor the place it is in, is held any longer. */
static void let_go(struct session *session)
{
	writer_finish();
	command_abandon(&session->command);
	misses_close(&session->rings);
	rings_close(&session->rings);
	if (session->directory_fd >= 0)
		close(session->directory_fd);
	session->directory_fd = -1;
	if (chdir("/"))
		fail("the recorder cannot leave its directory: %s", strerror(errno));
}

static void finish(struct session *session)
{
	if (session->stats_fd >= 0)
		close(session->stats_fd);
	probes_close(&session->probes);
	leave_to_child();
}

/* --probes */
static int doctor(struct session *session)
{
	if (session_load(session))
		return STATUS_FAILED;
	for (enum occasion occasion = 0; occasion < OCCASIONS; occasion++)
		probes_attach(&session->probes, occasion);
	return probes_report(&session->probes, stdout) ? STATUS_FAILED : 0;
}

int main(int argc, char **argv)
{
	static struct session session = { .control.fd = -1,
					  .directory_fd = -1,
					  .mounts_fd = -1,
					  .signal_fd = -1,
					  .stats_fd = -1 };
	int error, status;

	status = options_parse(&session.options, argc, argv);
	if (status >= 0)
		return status;
	if (session.options.probes) {
		status = doctor(&session);
	} else {
		error = start(&session);
		status = error == -ECANCELED ? 128 + session.ending_signal
			 : error             ? STATUS_FAILED
					     : run(&session);
	}
	let_go(&session);
	status_line("done %d", status);
	finish(&session);
	return status;
}
