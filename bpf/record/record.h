/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The recorder's parts and what they share.  Functions return 0 or -errno unless said otherwise. */
#ifndef IOSTRATA_RECORD_H
#define IOSTRATA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "events.h"
#include "shared.h"

struct iostrata; /* the skeleton */
struct bpf_program;
struct btf;

#define STATUS_FAILED 125
#define STATUS_CANNOT_EXECUTE 126
#define STATUS_NOT_FOUND 127

#define NSEC_PER_SEC 1000000000ull
#define RECORDER_CPU 65535
#define CGROUP_ROOT "/sys/fs/cgroup"

_Static_assert(POINT_count <= MAX_POINTS, "more points than MAX_POINTS: raise it in shared.h");

/* Says what failed, why and what to do: as a `failed` line on the status descriptor, else on stderr. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void status_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
int status_to(int fd);
void status_mark(const char *word);
/* -1: nobody reads it */
int status_fd(void);

uint64_t now_ns(void);

/* options.c */
struct options {
	const char *directory;
	char **command; /* NULL: until a signal or the duration */
	pid_t pids[MAX_NAMES];
	unsigned int pid_count;
	const char *comms[MAX_NAMES];
	unsigned int comm_count;
	const char *cgroups[MAX_NAMES];
	unsigned int cgroup_count;
	const char *devices[MAX_NAMES];
	unsigned int device_count;
	bool all;
	unsigned int duties; /* bits of what this machine does, duties.h */
	bool detail;
	bool force;
	bool stats;
	bool why;
	bool who;
	bool no_names;
	bool compress;
	unsigned int reads; /* enum reads_recorded */
	unsigned short ports[MAX_PORTS];
	unsigned int port_count;
	bool probes;  /* --probes: only load and attach */
	bool ringbuf; /* --ringbuf: as on a kernel without compare-and-exchange */
	unsigned int buffer_kib;
	double duration_s;
	int control_fd;
};

/* <0: go on; otherwise exit with this status */
int options_parse(struct options *options, int argc, char **argv);
/* What was asked for, as one line for the recording. */
void options_describe_filter(const struct options *options, char *text, size_t size);
void options_describe_command(const struct options *options, char *text, size_t size);

/* privileges.c */
/* Root, or a file or service with the capabilities that loading programs takes: the names of those
 * that this process has not, "" if it has them. */
void privileges_missing(char *text, size_t size);
/* Types of modules, and so programs for these, are for CAP_SYS_ADMIN (BPF_BTF_GET_FD_BY_ID). */
bool privileges_reach_modules(void);
/* All that recording with these options needs no more; for ever. */
int privileges_drop(const struct options *options);

/* output.c */
int output_open(const struct options *options);
/* Somebody removed it: what is written there is nobody's. */
bool output_gone(int directory_fd);

/* kernel.c */
struct kernel {
	bool has_cmpxchg;
	int fentry_error; /* -errno: no program can be attached to a function */
	bool has_rdonly_cast;
	struct type_ids type_ids;
	bool block_rq_argument;
	bool block_bio_argument;
	bool block_status_argument;
	bool switch_state_argument;
	bool functions_stood_in; /* programs there are stood in for (stand_in.bpf.h) */
	bool points_stood_in;
};

struct types; /* types.h */
void kernel_look(struct kernel *kernel, const struct types *types);
void kernel_tell(const struct kernel *kernel, struct iostrata *skeleton);
void kernel_mount_tracefs(void);

/* older.c: the opened skeleton, without what the BPF of older kernels lacks */
struct bpf_object_open_opts;
struct iostrata *older_open(const struct bpf_object_open_opts *options);

/* cpus.c: a list's CPUs are numbered below this; -errno, and said: not all could be recorded */
int cpus_limit(const char *path);
uint64_t cpus_stolen_ns(void);

/* presence.c: which of the kernel's BTF types, its own or a loaded module's, are there */
int presence_test(const struct types *types, const char *const *names, bool *present,
		  unsigned int count);

struct probe;
struct probes;

/* osd.c: which OSD of Ceph a process is; -1: not known */
int osd_number(pid_t pid);

/* hung.c: the letter of a thread's state in /proc, and its flags; 0: it is gone. */
#define PF_IO_WORKER 0x10 /* from linux/sched.h */
char task_state(pid_t tid, unsigned int *flags);

/* filter.c */
/* groups: the ids of its control groups. */
int filter_fill(struct filter *filter, unsigned long long groups[MAX_NAMES],
		const struct options *options);
/* A table of BPF's has no room for something. */
void filter_table_full(struct iostrata *skeleton, enum table table, unsigned int what);
/* Its place in the table of threads, or -ENOENT. */
int filter_find_thread(const struct iostrata *skeleton, pid_t tid);
int filter_add_thread(struct iostrata *skeleton, struct thread *threads, pid_t tid, pid_t tgid,
		      unsigned int kind);
int filter_add_process(struct iostrata *skeleton, struct thread *threads, pid_t pid,
		       unsigned int kind, unsigned int depth);
int filter_add_processes(struct iostrata *skeleton, struct thread *threads,
			 const struct options *options);

/* duties.c; asked: a set of bits */
int duties_number(const char *name); /* or -ENOENT */
const char *duties_name(unsigned int number);
/* What its processes execute, NULL: they are not known by that. */
const char *duties_executable(unsigned int number);
bool duties_want(unsigned int asked, const struct probe *probe);
void duties_tell(unsigned int asked, struct filter *filter);
/* All processes that do it now. */
int duties_each(unsigned int number, void (*found)(pid_t pid, void *context), void *context);
/* All that have any of the duties, as bits: always the same ones. They are looked at anew twice a
 * second at most, and less often where there are very many. */
void duties_follow(unsigned int wanted,
		   void (*found)(pid_t pid, unsigned int duties, void *context), void *context);
/* Their threads, as recorded ones. */
int duties_add(unsigned int asked, struct iostrata *skeleton, struct thread *threads);

/* mounts.c: of each mount, what it is of ("ext4 ..."); true: one of them is it */
bool mounts_any(const struct options *options, bool (*is_it)(const char *type));
int mounts_open(void); /* to be polled for changes; -1: it cannot be */
bool mounts_has_type(const char *type, const char *const *names, unsigned int count);

/* fuse.c */
bool fuse_is_served(const struct options *options);

/* clones.c */
bool clones_are_possible(const struct options *options);

/* blocks.c: block devices */
#define STRIPING_BYTES 512

struct block {
	unsigned int dev;
	unsigned int parent_dev;
	char name[64];
	char scheduler[32];
	char write_cache[32];
	char fua[8];
	char rotational[8];
	char logical_block_size[16];
	char backing[256];
	char read_only[8];
	char transport[16];
	char pci[16];                     /* what its controller is, vendor:device */
	char queue_limits[16];            /* which of wbt and io.cost may hold a request back */
	unsigned long long backing_inode; /* 0: of no file */
	unsigned long long sequence;      /* of a disk's medium; 0: not told */
	bool empty;                       /* it has none yet: a loop device without a file */
	unsigned int lower_devs[64];
	unsigned int lower_count;
	unsigned int store_devs[8]; /* where snapshots keep what is about to be overwritten here */
	unsigned int store_count;
	char striping[STRIPING_BYTES]; /* of device mapper's, as told; empty: of no such */
};

struct blocks {
	struct block *list;
	unsigned int count;
};

/* vendor:device of a directory of sysfs that is a PCI device's; false: it is none. */
bool read_pci_id(const char *directory, char *id, size_t size);
int blocks_collect(struct blocks *blocks);
/* Adds what device mapper's tables tell of its own devices: only who may manage them is told. */
void mapper_read(struct blocks *blocks);
void blocks_free(struct blocks *blocks);
/* What there is now, with what has gone since; of now nothing is left.  -errno: all is as it was. */
int blocks_add(struct blocks *blocks, struct blocks *now);
/* NULL: no block device */
const struct block *blocks_find(const struct blocks *blocks, unsigned int dev);
/* The whole disk; 0: no block device. */
unsigned int blocks_disk_of(const struct blocks *blocks, unsigned int dev);
/* What lies below a device, as far as there is room; how many there are in all. */
unsigned int blocks_below(const struct blocks *blocks, unsigned int dev, struct follow *below,
			  unsigned int room);
/* The devices of the btrfs that has this one; 0: there is none. */
unsigned int blocks_btrfs_devices(const struct blocks *blocks, unsigned int dev,
				  struct follow *list, unsigned int room);

/* devices.c: what BPF knows of each; those that are asked for */
int devices_begin(struct iostrata *skeleton, const struct options *options,
		  const struct blocks *blocks);
/* The same of what has come since: to be recorded as if it had been there. */
void devices_follow(struct iostrata *skeleton, const struct blocks *blocks);
/* Whether a device is one of those asked for, or lies on one; -ENOENT: that is not known. */
int devices_allow(const struct iostrata *skeleton, unsigned int dev);

/* uevents.c */
int uevents_open(void); /* -1: they are not to be had */
/* Takes what there is: whether any of it is of a disk. */
bool uevents_of_disks(int fd);

/* facts.c */
int facts_write(const struct blocks *blocks, int directory_fd);
/* What disks have come since it was asked last. */
int facts_follow_disks(struct blocks *blocks, int directory_fd);
/* The same, and what was mounted: at the end. */
int facts_follow(struct blocks *blocks, int directory_fd);
FILE *facts_create(int directory_fd, const char *name);

/* tsc.c: how the virtual machines' time stamp counters differ from this machine's */
int tsc_write(int directory_fd);

/* cards.c: network cards by their drivers */
int cards_write(int directory_fd);

/* limits.c */
/* For the recorder alone: its command was forked before. */
void limits_raise(void);
/* -EPERM: processes have other numbers here, which is said. */
int limits_check_namespaces(void);
/* As strerror(), with the limit's name where it is one. */
const char *limits_text(int error);

/* topology.c: node, package and core of each CPU that is online */
int topology_write(unsigned int cpus, int directory_fd);

/* affinity.c: which CPUs the threads of a process may run on */
void affinity_tell(pid_t pid, FILE *out);

/* vmms.c: virtual machines by name, and whose QEMU holds requests back itself; asked: duties */
int vmms_write(unsigned int asked, int directory_fd);

/* What O_DIRECT asks of a buffer, its length and the offset, on any disk. */
#define BLOCK_BYTES 4096

/* images.c: which of a process's files are images that are not raw, where those keep what, and
 * which are over another one */
struct images_out {
	FILE *formats, *maps, *backed;
};
void images_tell(pid_t pid, const struct images_out *out);

/* passthrough.c: which disks' controllers a process has as its own */
void passthrough_tell(pid_t pid, FILE *out);

/* qcow2.c: where an image keeps what its guest sees; whether it is over another one */
bool qcow2_tell(int fd, unsigned int dev, uint64_t inode, FILE *out);

/* cgroups.c: the paths of the control groups whose ids the programs have noted */
void cgroups_follow(const unsigned long long *ids);
int cgroups_write(const unsigned long long *ids, int directory_fd);

/* stacks.c: the kernel stacks that were met, by name */
int stacks_write(int map_fd, int directory_fd);

/* metadata.c */
struct metadata {
	uint8_t uuid[16];
	uint64_t offset_ns; /* realtime - monotonic */
	const struct options *options;
	/* bytes of each point's event that hold fields; 0: no such point */
	unsigned int used_bytes[MAX_POINTS];
};

int metadata_write(struct metadata *metadata, const struct btf *btf, int directory_fd);

/* checksum.c */
uint32_t checksum(const uint8_t *bytes, size_t size);

/* frame.c: packets as frames, one at a time */
int frame_begin(void);
/* How long the frame is that is made of so many bytes; theirs is its place until the next one. */
ssize_t frame_make(const uint8_t **bytes, size_t size);
void frame_end(void);

/* writer.c */
#define PACKET_EVENTS 4096

struct packet_head {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t timestamp_begin;
	uint64_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	uint64_t events_discarded;
	uint32_t cpu_id;
	uint32_t crc32;
	uint8_t padding[48];
} __attribute__((packed));

struct packet {
	struct packet *next;
	int fd;
	bool compressed; /* to be written as a frame */
	size_t size;     /* of the head and the events */
	uint8_t padding[40];
	struct packet_head head;
	union event events[PACKET_EVENTS];
};

int writer_start(bool compress);
/* A packet to be filled, and to be freed or pushed; NULL: no memory. */
struct packet *writer_packet(void);
/* Queues a packet; -errno of an earlier one that could not be written. */
int writer_push(struct packet *packet);
/* Waits until all is written. */
int writer_finish(void);

/* packet.c */
struct stream {
	int fd;
	bool compressed;
	uint32_t cpu;
	struct packet *packet; /* being filled, sorted by time */
	unsigned int count;
	uint64_t last_ns; /* of all events until now */
	uint64_t sequence;
	uint64_t discarded; /* said by the last packet */
	/* How many have been discarded, and when what the last packet does not say of that was: the
	 * packet that says it begins and ends so. */
	uint64_t lost, lost_begin_ns, lost_end_ns;
};

int stream_open(struct stream *stream, int directory_fd, uint32_t cpu, bool compressed);
void stream_close(struct stream *stream);
bool stream_full(const struct stream *stream);
uint64_t stream_settled_ns(const struct stream *stream);
/* Of those that are not written yet, of which there are some. */
uint64_t stream_first_ns(const struct stream *stream);
void stream_add(struct stream *stream, const union event *event);
/* Writes what is not younger than until_ns. What was discarded since the packet before was so until
 * end_ns: it ends no earlier, if it tells of any. */
int stream_write(struct stream *stream, const struct metadata *metadata, uint64_t until_ns,
		 uint64_t discarded, uint64_t end_ns);

/* ring.c */

/* Where a ring could not be read on, and since when; since_ns 0: it could. */
struct stuck {
	uint64_t position;
	uint64_t since_ns;
};

struct rings {
	struct iostrata *skeleton;
	const struct metadata *metadata;
	struct stream *streams; /* one a CPU */
	struct stream recorder;
	struct stuck *stuck; /* one a CPU */
	uint64_t ending_ns;  /* since when nothing is emitted any more; 0: it is */
	unsigned int cpu_count;
	unsigned int slot_count; /* a CPU */
	union event *slots;
	size_t slots_bytes;
	struct ring_buffer *ringbuf; /* wakes; without slots it carries the events */
	uint64_t event_count;
	uint64_t said_lost[MAX_CPUS][MAX_POINTS];
	uint64_t said_full[TABLES];
	uint64_t said_unseen[UNSEEN_KINDS];
	struct missed *missed; /* one a program; in misses.c */
	unsigned int missed_programs;
	uint64_t missed_at_ns; /* when they were last looked at, and before that */
	uint64_t missed_before_ns;
	uint64_t missed_count;
	bool missed_any; /* of those that can be stood in for */
	uint64_t stood_in_at_ns;
};

int rings_open(struct rings *rings, struct iostrata *skeleton, const struct metadata *metadata,
	       int directory_fd);
void rings_close(struct rings *rings);
/* How full the fullest ring was, in percent, or -errno. */
int rings_drain(struct rings *rings);
int rings_write(struct rings *rings, bool final);
/* No more events; all that the rings still hold. */
int rings_finish(struct rings *rings);
/* From now on events are emitted, or no more. */
void rings_record(struct rings *rings, bool recording);
/* Readable when a ring fills. */
int rings_wake_fd(const struct rings *rings);
uint64_t rings_lost(const struct rings *rings);

/* own.c: the recorder's own events */
void own_event(struct rings *rings, union event *event, enum point point, uint16_t cpu);
void own_clock(struct rings *rings);
void own_losses(struct rings *rings);
void own_full(struct rings *rings);
void own_unseen(struct rings *rings);
void own_cut(struct rings *rings, const struct thread *threads); /* calls that still run */
void own_costs(struct rings *rings);
void own_recorder(struct rings *rings, bool asks_stolen);
void own_end(struct rings *rings, enum end_reason reason, unsigned int outlived_count);
void own_probes(struct rings *rings, struct probes *probes);

/* misses.c */
#define AGAIN "_again" /* how the name ends of a program that stands in for another */
struct bpf_program;
struct bpf_prog_info;
bool is_again(const char *program);
/* False: the program is not loaded. */
bool program_info(const struct bpf_program *program, struct bpf_prog_info *info);
int misses_open(struct rings *rings);
void misses_close(struct rings *rings);
/* What the kernel skipped programs for since the last call; the first only looks. */
void misses_tell(struct rings *rings);
void misses_follow(struct rings *rings, uint64_t now); /* when it is due */
/* No more will be skipped. */
void misses_end(struct rings *rings);
/* Has programs stood in for, once any was skipped. */
void misses_stand_in(struct rings *rings, struct probes *probes);

/* outlived.c */
/* Processes of the tree that is recorded, and still run. */
unsigned int outlived(const struct iostrata *skeleton, const struct thread *threads);

/* leave.c: what is still open is closed by a child, when this process has ended */
void leave_to_child(void);

/* command.c */
struct command {
	pid_t pid;    /* 0: none */
	int go_fd;    /* a byte here lets it execute */
	int error_fd; /* its errno comes from here if it cannot */
	bool ended;
	int status; /* of waitpid */
};

int command_fork(struct command *command, char **arguments);
/* 0, or the -errno of execvp */
int command_go(struct command *command);
bool command_reap(struct command *command);
void command_ask(const struct command *command, int signal_number);
void command_abandon(struct command *command);
int command_exit_status(const struct command *command);

#endif
