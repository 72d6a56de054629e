// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a coordinator asks for, a line at a time.  While it lives it asks for the time. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

/* A coordinator whose machine is gone closes nothing: it only falls silent. */
#define SILENCE_NS (60 * NSEC_PER_SEC)

int control_open(struct control *control, int fd)
{
	control->heard_ns = now_ns();
	control->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (control->fd < 0) {
		fail("--control-fd %d is not open", fd);
		return -EBADF;
	}
	close(fd);
	/* The command must not read what is for us. */
	if (!fd && open("/dev/null", O_RDONLY))
		return -errno;
	return 0;
}

static void answer(struct control *control, const char *line)
{
	if (!strcmp(line, "clock"))
		status_line("clock %llu", (unsigned long long)now_ns());
	else if (!strcmp(line, "go"))
		control->go = true;
	else if (!strncmp(line, "mark ", 5))
		status_mark(line + 5);
	else
		status_line("unknown %s", line);
}

/* More than fits into a line is not ours. */
static void take(struct control *control, size_t got)
{
	char *begin = control->unread, *end;

	control->used += got;
	while ((end = memchr(begin, '\n', control->unread + control->used - begin))) {
		*end = 0;
		answer(control, begin);
		begin = end + 1;
	}
	control->used -= begin - control->unread;
	memmove(control->unread, begin, control->used);
	if (control->used == sizeof(control->unread))
		control->used = 0;
}

bool control_answer(struct control *control)
{
	ssize_t got = read(control->fd, control->unread + control->used,
			   sizeof(control->unread) - control->used);

	if (got <= 0)
		return false;
	control->heard_ns = now_ns();
	take(control, got);
	return true;
}

bool control_silent(const struct control *control)
{
	return control->fd >= 0 && now_ns() - control->heard_ns > SILENCE_NS;
}

void control_close(struct control *control)
{
	if (control->fd >= 0)
		close(control->fd);
	control->fd = -1;
}
