// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the recorder says: to people on stderr, to programs on the status descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define SEPARATOR "\x1e"

static int status_descriptor = -1;
static char mark[48];

/* The command must not keep it open, nor write there, except on stderr: there our lines
 * are told from its own by a record separator before each, and what status_mark() adds. */
int status_to(int fd)
{
	status_descriptor = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (status_descriptor < 0) {
		fail("--status-fd %d is not open", fd);
		return -EBADF;
	}
	if (fd > STDERR_FILENO)
		close(fd);
	else if (fd == STDERR_FILENO)
		strcpy(mark, SEPARATOR);
	else if (fd == STDOUT_FILENO)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	return 0;
}

/* A word that the command does not know: what it writes on stderr is not taken for ours. */
void status_mark(const char *word)
{
	if (mark[0])
		snprintf(mark, sizeof(mark), SEPARATOR "%s ", word);
	status_line("marked");
}

int status_fd(void)
{
	return status_descriptor;
}

/* False: nobody reads it. */
static bool status_write(const char *prefix, const char *format, va_list arguments)
{
	char line[1024];
	size_t used = snprintf(line, sizeof(line), "%s%s", mark, prefix);

	if (status_descriptor < 0)
		return false;
	vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
	for (char *c = line; *c; c++) {
		if (*c == '\n')
			*c = ' ';
	}
	strcat(line, "\n");
	if (write(status_descriptor, line, strlen(line)) < 0)
		status_descriptor = -1;
	return status_descriptor >= 0;
}

void status_line(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	status_write("", format, arguments);
	va_end(arguments);
}

static void say(const char *prefix, const char *format, va_list arguments)
{
	fprintf(stderr, "iostrata-record: %s", prefix);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

void fail(const char *format, ...)
{
	va_list arguments;
	bool told;

	va_start(arguments, format);
	told = status_write("failed ", format, arguments);
	va_end(arguments);
	if (told)
		return;
	va_start(arguments, format);
	say("", format, arguments);
	va_end(arguments);
}

void warn(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say("warning: ", format, arguments);
	va_end(arguments);
}
