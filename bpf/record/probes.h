/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The BPF programs, and what each became on this kernel. */
#ifndef IOSTRATA_PROBES_H
#define IOSTRATA_PROBES_H

#include "record.h"

struct bpf_program;
struct bpf_link;

/* probes.c */
struct probe {
	const char *program;
	char layer[16];
	char points[512];
	char target[64]; /* the BTF type of what it attaches to; "": not known */
	bool function;   /* it attaches to a function */
	bool absent;     /* the target is not there */
	bool alone;      /* nor is anything that it would be of use to */
	bool again;      /* another may stand in for it */
	int error;       /* -errno */
	bool wanted;
	bool told; /* with this error: */
	int told_error;
	char text[160];
};

/* A function of a process that is looked at; link NULL: it cannot be, or has not mapped it yet and
 * is asked again some times. */
struct uprobe;
struct mapped {
	pid_t pid;
	const struct uprobe *uprobe;
	struct bpf_link *link;
	unsigned int asked_again;
};

/* is_slow: detaching it takes long */
struct attached {
	struct bpf_link *link;
	bool is_slow;
};

/* When a program is attached: each hit of one costs everybody, of use or not. */
enum occasion {
	OCCASION_ALWAYS,
	OCCASION_COMPAT, /* 32-bit programs */
	OCCASION_LOOPS,  /* loop devices */
	OCCASION_SPLITS, /* bios that were split */
	OCCASIONS
};

struct probes {
	struct iostrata *skeleton;
	bool has_cmpxchg; /* this kernel */
	int fentry_error;
	bool functions_stood_in; /* this kernel may skip such programs, and lets others stand in */
	bool points_stood_in;
	struct probe *list;
	unsigned int count;
	struct attached *links;
	unsigned int link_count;
	struct mapped *mapped;
	unsigned int mapped_count;
	bool attached[OCCASIONS]; /* all that is for it */
};

/* Sets what must be known before loading; called again for each attempt.  The types are closed then. */
typedef int (*probes_prepare)(struct iostrata *skeleton, void *context);
int probes_load(struct probes *probes, struct types *types, const struct options *options,
		probes_prepare prepare, void *context);
/* Attaches what was loaded for that, once; a program that cannot be gets its error. */
void probes_attach(struct probes *probes, enum occasion occasion);
/* Attaches what stands in for a program where the kernel skips that; -EAGAIN: it is not there yet. */
int probes_attach_again(struct probes *probes, struct bpf_program *program);
/* NULL: there is no such program */
struct probe *probes_find(struct probes *probes, const char *program);
int probes_report(const struct probes *probes, FILE *out);
/* The program that took a refused one's place, NULL: none did. */
const struct probe *probes_replacement(const struct probes *probes, const struct probe *probe);
/* Keeps what was attached; NULL: what errno says, returned. */
int probes_keep(struct probes *probes, const struct bpf_program *program, struct bpf_link *link);
/* Detaches all that is quickly detached; the end of the process does the rest. */
void probes_close(struct probes *probes);

/* calls.c: programs that look at many system calls; false: it is none of them */
bool calls_name(const char *program, char *points, size_t size);
bool calls_attach(struct probes *probes, struct probe *probe, const struct bpf_program *program);

/* uprobes.c: programs that look at functions of the processes of a duty */
bool uprobes_name(const char *program, char *point, size_t size); /* false: it is none of them */
bool uprobes_attach(struct probes *probes, struct probe *probe);
/* Attaches to processes that came since, and lets go of those that have ended. */
void uprobes_follow(struct probes *probes);
/* Attaches to a process of the workload that has opened a disk of Ceph. */
void uprobes_meet(struct probes *probes, pid_t pid);
/* Attaches to what processes have Ceph's library call. */
void uprobes_meet_functions(struct probes *probes);
void uprobes_close(struct probes *probes);

#endif
