/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the BPF programs and the recorder share besides the events. */
#ifndef IOSTRATA_SHARED_H
#define IOSTRATA_SHARED_H

#include "duties.h"

#define MAX_CPUS 512
#define MAX_POINTS 160

/* The recorder is woken when one such part of a ring has been filled: seldom, as each drain moves
 * cache lines between CPUs. */
#define WAKE_PARTS 4

/* Threads are kept in sets of THREAD_WAYS, chosen by the low bits of the tid. */
#define THREAD_SETS 4096
#define THREAD_WAYS 4
#define MAX_THREADS (THREAD_SETS * THREAD_WAYS)

/* A place for a device, of 1 << bits. */
#define DEV_HASH(dev, bits) (((dev)*2654435761u) >> (32 - (bits)))

#define WATCH_SETS_BITS 8
#define WATCH_SETS (1 << WATCH_SETS_BITS)
#define WATCH_WAYS 4
#define MAX_FOLLOWS 4096
#define MAX_MOUNTED 128
#define MAX_BELOW 64 /* one device */
#define MAX_PORTS 4
#define MAX_NAMES 16

/* Files whose names are remembered as told: two that share a place are told of again. */
#define NAMED_BITS 15

/* Kernel stacks that are told apart (--why), and how deep. */
#define MAX_STACKS 16384
#define STACK_FRAMES 32

/* One ring's positions; each on a cache line of its own. */
struct ring {
	unsigned long long head; /* next to be reserved */
	unsigned long long
		limit; /* below it there is room: tail, when it was looked at last, and a lap */
	unsigned int recording; /* 0: nothing is emitted, as nobody reads (any more) */
	unsigned int recording_pad;
	unsigned long long lost_begin_ns; /* the first loss that was not read yet; 0: none */
	unsigned long long lost_end_ns;   /* the last loss */
	unsigned long long head_pad[3];
	unsigned long long tail; /* all before it have been read */
	unsigned long long tail_pad[7];
} __attribute__((aligned(64)));

/* How often a table had no room, and for what last. */
struct full {
	unsigned long long count;
	unsigned int last;
	unsigned int pad;
};

/* Whether a thread's event has been emitted; once for as long as it lives, and, as any may be lost,
 * anew now and then. */
enum announced {
	ANNOUNCED_NEVER,
	ANNOUNCED,
	ANNOUNCED_BEFORE,
};

/* In place of a call, with enter_ns 0: in none that is recorded, it is at what others' syncs of a file
 * system wait for. */
#define CALL_BESIDE 255

/* A recorded thread.  All zero in a free place.  What is used together is on one cache line: what
 * sched_switch needs, what a system call does, and the rest. */
struct thread {
	/* off the CPU; off_ns 0: it runs */
	unsigned long long off_ns;
	unsigned long long wake_ns;
	unsigned int waker_tid;
	unsigned int off_state;
	int stack; /* where it sleeps, among the stacks; negative: not known */

	unsigned char kind; /* enum thread_kind; 0: in the process tree, filters not checked yet */
	unsigned char frozen : 1;  /* the queue that it hands a bio to, when it fell asleep */
	unsigned char compat : 1;  /* its calls are a 32-bit program's, and that was said */
	unsigned char serves : 1;  /* a helper that also does itself what is waited for */
	unsigned char submits : 1; /* it sleeps amid handing on the bio that it queued last */
	unsigned char told : 1;    /* who it is as a task */
	unsigned char met : 1;     /* at the beginning of a call */
	unsigned char pooled : 1;  /* a worker of the kernel's pools */
	unsigned char other_work : 1;
	unsigned char waker_context; /* enum wake_context */
	unsigned char useless_runs;  /* of a helper, since it was of use */
	unsigned short waker_cpu;
	unsigned char let_go; /* by the waker, since it ran */
	unsigned char waker_other_work;

	/* the call that it is in, or a loop device's work; enter_ns 0: in none */
	unsigned char call;
	unsigned char rwf;
	unsigned char announced; /* enum announced; the recorder changes it, too */
	unsigned char timed;     /* its own timer is about to wake it, on waker_cpu */
	unsigned long long enter_ns;

	/* when it could run last: its queue, and for how long that had been throttled */
	unsigned long long queue_key;
	unsigned long long throttled_ns;

	/* the rest of its call, and what its file was called when that was told of last */
	unsigned long long name_tag;
	unsigned long long file_key;
	unsigned long long inode;
	union {
		long long offset_bytes;
		unsigned long long ended_ns; /* when the one began that it is behind */
	};
	unsigned int open_flags;
	unsigned int size_bytes;
	unsigned int dev;
	unsigned int tgid;

	/* in its file system's sync */
	unsigned long long sync_enter_ns;
	unsigned int sync_transaction;
	unsigned short sync_datasync;

	/* its last call that was recorded has ended: the number of that, and 1; 0: it has begun
	 * another of such a number since */
	unsigned short behind;

	/* its io_uring_enter concerned a recorded request; another thread may say so at any time */
	unsigned short uring_concerned;
	/* what it asks for goes on behind its calls, and it, or who else collects that, is waited for */
	unsigned short collects;
	union {
		unsigned int generation; /* of its call's file */
		int ring;                /* the descriptor that it waits at; -1: it waits at none */
	};

	unsigned long long bio_key;     /* what it queued last */
	unsigned long long request_key; /* what a worker of io_uring was said to be at last */
	unsigned long long
		work_key; /* what a worker of the kernel's pools slept in last, 0: in none */

	union {
		unsigned long long
			scratch[4]; /* for layers that stash more, of this thread's alone */
		unsigned long long beside_ns; /* since when it is CALL_BESIDE, of dev */
	};

	/* a virtual CPU, out of guest mode; exit_ns 0: it is in, or was not seen yet */
	unsigned long long exit_ns;
	unsigned int exit_reason;
	unsigned int exit_isa;
	unsigned int vcpu;
	unsigned int migrations; /* how often it had been moved when it could run last, preempted */

	/* when it was moved last from one CPU's queue to another's */
	unsigned long long moved_ns;

	unsigned int switches;   /* how often it has left the CPU, as far as that was seen */
	unsigned int stopped_by; /* enum stop */

	/* with work_key: whose work that is of, and what it does */
	unsigned long long work_pool_key;
	unsigned long long work_function;

	/* since when it is stopped on its way back to user space, 0: it is not */
	unsigned long long stopped_ns;
} __attribute__((aligned(64)));

/* So many runs are remembered of each CPU; what a thread waited for before is not known. */
#define RUNS 128

/* Kernel workers that are not recorded: two that share a place forget each other's. */
#define WOKEN_BITS 9

struct woken {
	unsigned long long wake_ns;
	unsigned long long on_ns; /* 0: not yet */
	unsigned int tid;
	unsigned int waker_tid;
	unsigned int state;
	unsigned short waker_cpu;
	unsigned short waker_context;
	/* Of a program's thread that did it itself: who that is. */
	unsigned int waker_tgid; /* 0: it was none */
	unsigned int pad;
	unsigned long long waker_cgroup;
	char waker_comm[16];
	char waker_process[16];
};

/* Tasks that waited for one another and are not recorded: two that share a place forget each
 * other's. */
#define PASSED_BITS 9

struct passed {
	unsigned long long wake_ns;
	unsigned int tid;
	unsigned int pad;
};

/* Reads that are noted: two that share a place are forgotten in turn. */
#define READS_BITS 10

/* Tasks that were told of: two that share a place are told of again. */
#define TOLD_TASKS 65536

/* Files that somebody wrote to: two that share a place are forgotten in turn. */
#define DIRTIERS_BITS 14

struct dirtier {
	unsigned long long inode_key;
	unsigned int tid;
	unsigned int pad;
};

/* Transactions that have handles: of one journal, the running and the committing one. */
#define TRANSACTIONS 256
#define MAX_HANDLERS 32

struct handlers {
	unsigned long long key; /* dev << 32 | transaction; 0: free */
	unsigned int tid[MAX_HANDLERS];
	unsigned int block_count[MAX_HANDLERS + 1]; /* the last: of all that found no place */
	unsigned int pad;
};

/* Control groups of those that are told of. */
#define CGROUP_SETS 256
#define CGROUP_WAYS 8

/* A process had a CPU. */
struct run {
	unsigned long long begin_ns;
	unsigned long long end_ns; /* 0: it goes on */
	unsigned long long cgroup;
	unsigned int tgid; /* 0: nobody, it was idle */
	unsigned int told;
	unsigned long long process[2]; /* its name */
};

struct cpu_runs {
	unsigned long long count;
	struct run last[RUNS];
};

enum watch_bits {
	WATCH_DISK = 1,    /* record its block events */
	WATCH_FS = 2,      /* record the events of the file system on it */
	WATCH_ALLOWED = 4, /* --device names it */
	WATCH_CUT = 8,     /* there was no room for all that lies below it */
	WATCH_OTHER = 16,  /* it lies on none that --device names */
	WATCH_BELOW = 32,  /* another disk lies on it */
};

struct watch {
	unsigned int dev;
	unsigned int bits;
	/* what lies below it, and is watched when it is */
	unsigned int first_follow;
	unsigned int follow_count;
};

/* Of a decision that is just being made: no disk's has this number. */
#define MEDIUM_NONE (~0ull)

struct follow {
	unsigned int dev;
	unsigned int bits;
};

/* File systems that were told of: two that share a place are told of again. */
#define KINDS_BITS 10

#define TRANSPORT_SETS 256
#define TRANSPORT_WAYS 4
#define MAX_TRANSPORTS (TRANSPORT_SETS * TRANSPORT_WAYS)
#define ARRIVALS 128
#define FLIGHT_SETS 1024
#define FLIGHT_WAYS 4

/* A connection that calls or commands come by, and when its last data came in; told_ns outlives it,
 * so that two that contend for one place are not told of without end. */
struct transport {
	unsigned long long told_ns; /* its connection was recorded */
	unsigned long long used_ns;
	unsigned long long command_ns; /* the command that is read now came in; of nvmet only */
	/* What goes out now: the request of NVMe's initiator, rbd's connection; 0: nothing. */
	unsigned long long sent_key;
	unsigned long long count; /* of arrivals, of which the last ones are kept */
	unsigned long long came_ns[ARRIVALS];
	unsigned int up_to[ARRIVALS]; /* the number in the stream of the byte behind what came */
};

/* An RPC call that this machine's client has sent: times as in struct rpc_event. */
struct flight {
	unsigned long long transport_key;
	unsigned long long send_ns;
	unsigned long long ready_ns;
	unsigned long long reply_ns;
	unsigned int xid; /* in network order */
	unsigned int pad;
};

/* Which reads are recorded beside what writes or makes durable. */
enum reads_recorded {
	READS_NONE,
	READS_DIRECT, /* past the page cache */
	READS_EVERY,
};

/* A function that a program has Ceph's library call. */
struct library_callback {
	unsigned long long function; /* its address */
	unsigned long long pid;
};

/* The longest path of a control group that is known again, with the 0 behind it. */
#define CGROUP_PATH 256

struct cgroup_filter {
	unsigned long long path; /* a number for it below its hierarchy, 0: it is too long */
	unsigned int level;
	unsigned int pad;
};

/* Fowler, Noll and Vo's (FNV-1a), of a path up to the 0 behind it. */
#define PATH_BASIS 0xcbf29ce484222325ull
#define PATH_PRIME 0x100000001b3ull

/* A duty's kernel threads, or its processes, are known by this name; "": not by a name. */
struct duty_filter {
	char comm[16];
	unsigned int kind;    /* enum thread_kind */
	unsigned int process; /* what all threads of a process do */
};

/* The kernel's numbers for types, 0: it has no bpf_rdonly_cast to say them to. */
struct type_ids {
	unsigned int block_device;
	unsigned int dentry;
	unsigned int file;
	unsigned int inode;
	unsigned int kiocb;
	unsigned int super_block;
	unsigned int task_struct;
};

/* Which threads are recorded.  Of the workload: kinds of filters that are asked for must all
 * match.  What most hits look at comes first, for one cache line. */
struct filter {
	unsigned int duties; /* bits: those asked for */
	/* bits: kinds of threads which all threads of a process are if its first one is */
	unsigned int process_kinds;
	unsigned int tree;   /* only threads in the table (a process tree) */
	unsigned int device; /* only devices with WATCH_ALLOWED */
	unsigned int comm_count;
	unsigned int cgroup_count;
	unsigned int own_tgid; /* the recorder: never */
	unsigned int why;      /* keep the stack of each sleep */
	unsigned int who;      /* note who has the CPUs */
	unsigned int detail;   /* tell of each bio that got a request */
	unsigned int names;    /* tell the files' */
	unsigned int library;  /* what the workload asks Ceph's library for is looked at */
	unsigned int reads;    /* enum reads_recorded */
	struct duty_filter duty[DUTY_count];
	char comms[MAX_NAMES][16];
	struct cgroup_filter cgroups[MAX_NAMES];
	unsigned short ports[MAX_PORTS]; /* of servers, whose packets are told of; 0: none */
};

/* Of a program that another may stand in for (stand_in.bpf.h): what the two do, and how often the
 * second did what the first was skipped for. */
enum standing {
	STANDS_BACK, /* the first alone is there, or looked at */
	STANDS_BY,   /* marks are left, which nobody goes by: some hits are under way without */
	STANDS_IN
};

struct stand_in {
	unsigned long long count;
	unsigned int standing;
	unsigned int pad;
};

#endif
