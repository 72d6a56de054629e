/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a window where sleeps are followed to what ended them. */
#ifndef CHAIN_H
#define CHAIN_H

#include "lookup.h"

/* Everything below is in words of 64 bits, as Python has it. */
struct wait {
	int64_t owner;
	int64_t sleep;
	int64_t begin_ns;
	int64_t end_ns;
	int64_t waker;
	int64_t cpu;
	int64_t context;
	int64_t other_work;
};

enum ending {
	BIO,
	CALL,
	COMMIT,
	ENDINGS
};

/* What a waker did, in its row of the front. */
struct deed {
	int64_t wait;
	int64_t sleep;
	int64_t floor_ns;
	int64_t helper;
	int64_t idle;
};

struct contexts {
	int64_t unknown;
	int64_t thread;
	int64_t interrupt;
	int64_t timer;
};

struct kinds {
	int64_t journal;
	int64_t worker;
	int64_t helper;
};

struct ranks {
	int64_t pause;
	int64_t interrupt;
	int64_t held;
	int64_t lock;
	int64_t runqueue;
	int64_t throttled;
	int64_t worker;
	int64_t asking;
};

/* From which number on what spans are of is a bio, a sleep or a thread. */
struct numbers {
	int64_t bio;
	int64_t sleep;
	int64_t thread;
};

struct limits {
	int64_t levels;
	int64_t soon_ns;
};

/* Columns of the window's sleeps. ``bio``: that one slept to get a request for, -1: none;
 * ``chosen``: whether its daemon chose to. */
struct sleeps {
	int64_t count;
	const int64_t *tid;
	const int64_t *off_ns;
	const int64_t *wake_ns;
	const int64_t *on_ns;
	const int64_t *waker;
	const int64_t *waker_cpu;
	const int64_t *context;
	const int64_t *state;
	const int64_t *throttled_ns;
	const int64_t *other_work;
	const int64_t *waker_other_work;
	const int64_t *met;
	const int64_t *bio;
	const int64_t *chosen;
};

struct endings {
	int64_t count;
	const int64_t *tid;
	const int64_t *time_ns;
	const int64_t *since_ns;
	const int64_t *row[ENDINGS]; /* -1: it is none of these. */
};

struct bios {
	int64_t count;
	const int64_t *queue_ns;
	const int64_t *tid;
	const int64_t *request;
	const int64_t *held;
	const int64_t *asker; /* Of which piece it is. */
	const int64_t *disk;
};

/* ``may_be``: of each device, whether what is on it may be on each of the disks. */
struct pieces {
	int64_t count;
	const int64_t *device;
	int64_t devices;
	int64_t disks;
	const int64_t *may_be;
};

struct table {
	struct lookup rows;
	const int64_t *value;
};

/* Of each owner, the endings that are its, in order of time. */
struct own {
	int64_t owners;
	const int64_t *first; /* Null: it is not known yet. */
	const int64_t *ending;
};

/* Rows to be looked up, by a thread unless it is said. ``on_cpu``: by thread and CPU. What those
 * lead to are endings, then sleeps, then rows of their own. */
struct chain {
	struct contexts context;
	struct kinds kind;
	struct ranks rank;
	struct numbers number;
	struct limits limit;
	struct sleeps sleeps;
	struct endings endings;
	struct bios bios;
	struct pieces pieces;
	struct lookup on_cpu;
	struct lookup of_thread;
	struct lookup told;
	struct lookup resumed;
	struct table kinds; /* ``value``: the kind. */
	/* What ends a sleep mostly is known without this. */
	struct own own;
	struct lookup on_thread; /* Without keys: it is not known yet. */
	struct lookup awake;
	struct table forgotten;       /* ``value``: when. */
	struct table commits;         /* ``value``: its end. */
	struct table calls;           /* ``value``: its end. */
	const int64_t *call_begin_ns; /* Null: none of this is known yet. */
};

#endif
