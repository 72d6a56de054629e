/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One run of the recorder.  Functions return 0 or -errno, and have said what failed. */
#ifndef IOSTRATA_SESSION_H
#define IOSTRATA_SESSION_H

#include "probes.h"

/* control.c */
struct control {
	int fd; /* -1: nobody asks */
	char unread[128];
	size_t used;
	uint64_t heard_ns;
	bool go; /* the command may begin */
};

int control_open(struct control *control, int fd);
/* Reads and answers; false: there is nobody any more. */
bool control_answer(struct control *control);
bool control_silent(const struct control *control);
void control_close(struct control *control);

struct session {
	struct options options;
	struct kernel kernel;
	struct filter filter;
	unsigned long long chosen_cgroups[MAX_NAMES]; /* by the ids that they had at the begin */
	struct blocks blocks;                         /* all that there were until now */
	int uevents_fd;                               /* -1: none */
	int mounts_fd;                                /* -1: none */
	bool disks_changed;
	uint64_t disks_at_ns; /* not looked at again before then */
	struct probes probes;
	struct metadata metadata;
	struct rings rings;
	struct command command;
	struct thread *threads; /* BPF's table, mapped */
	struct control control;
	int directory_fd;
	int signal_fd;
	int stats_fd;
	uint64_t begin_ns;
	uint64_t write_at_ns;
	uint64_t second_at_ns;
	uint64_t told_at_count; /* events, when what is told once was to be told anew last */
	uint64_t give_up_ns;    /* wait for the command until then; 0: no end was asked for */
	int go_error;           /* why the command cannot be executed: -errno */
	int ending_signal;      /* the first one that asked to end; 0: none has */
	enum end_reason reason; /* the first one; 0: none yet */
	bool abandoned;         /* nobody reads what is told */
	bool stop;
};

/* load.c */
int session_load(struct session *session);

/* trace.c */
/* metadata, facts, the stream files, the recorder's first events */
int trace_begin(struct session *session);
/* No more events; what the rings still hold, and the last of the recorder's own. */
int trace_end(struct session *session);

/* library.c */
/* Looks at programs that have had a disk of Ceph by its library since before. */
void library_begin(struct session *session);
/* The same, once one has opened one. */
void library_follow(struct session *session);

/* anew.c */
/* Has told anew what is told once, if that is seldom enough. */
void anew_follow(struct session *session);

/* hung.c */
/* Looks for calls that began before the recording and still run: no program meets them. */
void hung_begin(const struct session *session);
/* How many there are, for own_unseen(). */
void hung_follow(const struct session *session);
/* Tells of those that still run. */
void hung_tell(struct session *session);

/* compat.c */
/* Looks at 32-bit programs' calls, if there are any now. */
void compat_begin(struct session *session);

/* loop_devices.c */
/* Looks at what their workers do, if there are any that are set up. */
void loop_devices_begin(struct session *session);
/* The same, once one that was set up later is written to. */
void loop_devices_follow(struct session *session);

/* occasions.c */
/* Looks at 32-bit programs' calls once one has begun, and at what is left of split bios once one
 * was. */
void occasions_follow(struct session *session);

/* loop.c */
/* Lets the command begin, if there is one that has not. */
void loop_go(struct session *session);
/* Whether a signal has asked to end until now. */
bool loop_asked_to_end(struct session *session);
/* Signals are read, not handled: nothing is interrupted. */
int loop_block_signals(struct session *session);
/* Drains until the end; 0 or what made writing fail. */
int loop_record(struct session *session);
/* Nothing is recorded any more, but the command is to go on. */
void loop_wait(struct session *session);
/* How far it is, on the status descriptor. */
void loop_tell(const struct session *session);

#endif
