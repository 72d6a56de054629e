// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The command whose writes are recorded: forked early, executed when all is ready. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record.h"

static void run_child(int go_fd, int error_fd, char **arguments)
{
	sigset_t none;
	char byte;
	int error;

	/* No byte: the recorder could not start, and has said why. */
	if (read(go_fd, &byte, 1) != 1)
		_exit(STATUS_FAILED);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	execvp(arguments[0], arguments);
	error = errno;
	if (write(error_fd, &error, sizeof(error)) < 0)
		_exit(STATUS_FAILED);
	_exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE);
}

int command_fork(struct command *command, char **arguments)
{
	int go[2], error[2];

	*command = (struct command){ .go_fd = -1, .error_fd = -1 };
	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(error, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return -errno;
	}
	command->pid = fork();
	if (!command->pid) {
		close(go[1]);
		close(error[0]);
		run_child(go[0], error[1], arguments);
	}
	close(go[0]);
	close(error[1]);
	command->go_fd = go[1];
	command->error_fd = error[0];
	return command->pid < 0 ? -errno : 0;
}

int command_go(struct command *command)
{
	int error = 0;
	ssize_t got;

	if (write(command->go_fd, "g", 1) != 1)
		return -errno;
	close(command->go_fd);
	command->go_fd = -1;
	do {
		got = read(command->error_fd, &error, sizeof(error));
	} while (got < 0 && errno == EINTR);
	close(command->error_fd);
	command->error_fd = -1;
	return got == sizeof(error) ? -error : 0;
}

bool command_reap(struct command *command)
{
	if (!command->pid)
		return false;
	if (!command->ended && waitpid(command->pid, &command->status, WNOHANG) == command->pid)
		command->ended = true;
	return command->ended;
}

/* To end, by that signal or by 0, which another has sent: one that was stopped goes on for it. */
void command_ask(const struct command *command, int signal_number)
{
	kill(command->pid, signal_number);
	kill(command->pid, SIGCONT);
}

/* Before it was let go: closing the pipe ends it. */
void command_abandon(struct command *command)
{
	if (command->pid <= 0)
		return;
	if (command->go_fd >= 0) {
		close(command->go_fd);
		waitpid(command->pid, &command->status, 0);
	}
	if (command->error_fd >= 0)
		close(command->error_fd);
}

int command_exit_status(const struct command *command)
{
	if (WIFSIGNALED(command->status))
		return 128 + WTERMSIG(command->status);
	return WEXITSTATUS(command->status);
}
