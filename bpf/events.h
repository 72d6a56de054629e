/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every event that iostrata records, defined once.
 *
 * The BPF programs fill these structs, the recorder writes them unchanged into
 * CTF packets, and their BTF gives both the CTF metadata and the committed
 * Python layout (tracer/iostrata/trace/layout.py).  An event takes EVENT_BYTES
 * bytes whatever it holds, so a mixed stream is one strided array.
 *
 * Names carry units and kinds: _ns, _bytes, _key (opaque identity, printed in
 * hex).  To add a point: one struct (or reuse one), one line in POINTS.
 * Append only: the number is the position, and old recordings carry their own
 * metadata.
 */
#ifndef IOSTRATA_EVENTS_H
#define IOSTRATA_EVENTS_H

#define EVENT_BYTES 64

/* time_ns is CLOCK_MONOTONIC of the kernel that recorded it; tid is the thread
 * that ran when the point was hit (0: the idle task, any thread for interrupts). */
#define EVENT_HEADER                \
	unsigned long long time_ns; \
	unsigned short point;       \
	unsigned short cpu;         \
	unsigned int tid

/* One system call that writes, makes durable or reads, recorded when it returns. */
struct syscall_event {
	EVENT_HEADER;
	unsigned long long enter_ns;
	unsigned long long inode; /* on btrfs see SUBVOLUME_SHIFT */
	/* Of what is written, read or, where only a part is asked for, synchronised; -1: the file
	 * has none, or it is not known. */
	long long offset_bytes;
	unsigned int dev; /* of the file's superblock, kernel encoding (major << 20 | minor) */
	int result;       /* bytes, 0, or -errno */
	/* Asked for; of a part to be synchronised, 0: to the end.  Of an io_uring_enter that waits at
	 * a ring which a thread of the kernel submits for, that thread; 0: it does not. */
	unsigned int size_bytes;
	unsigned int tgid;
	unsigned int open_flags; /* struct file's f_flags, and OPEN_OF_... below */
	unsigned char call;      /* enum call */
	/* The RWF_ flags of pwritev2, the flags of sync_file_range and msync, fallocate's mode. */
	unsigned char rwf;
	/* The file that takes a deleted one's inode has another one; 0: not known. */
	unsigned short generation;
};

/* In open_flags: whatever the file was opened with, what is written to it is durable as with
 * O_DSYNC, by its mount (sync) or an attribute of its own (IS_SYNC in linux/fs.h). */
#define OPEN_OF_SYNC_INODE 0x80000000u

/* In open_flags as well: it is a block device's node; dev is the device itself. */
#define OPEN_OF_DEVICE 0x40000000u

/* Each subvolume of a btrfs numbers its files anew: above a file's number is its subvolume's, as
 * `btrfs subvolume list` has it (5: the topmost; 0: this kernel does not tell). */
#define SUBVOLUME_SHIFT 40

enum call {
	CALL_WRITE = 1,
	CALL_PWRITE64,
	CALL_WRITEV,
	CALL_PWRITEV,
	CALL_PWRITEV2,
	CALL_FSYNC,
	CALL_FDATASYNC,
	CALL_SYNC_FILE_RANGE,
	CALL_MSYNC,
	CALL_IO_SUBMIT,
	CALL_IO_GETEVENTS,
	CALL_IO_URING_ENTER, /* only one that submitted, waited for or reaped a recorded request */
	CALL_SYNC,           /* of all file systems: no file, no device */
	CALL_SYNCFS,
	CALL_SENDFILE, /* these three: of the file that they write to */
	CALL_SPLICE,
	CALL_COPY_FILE_RANGE,
	/* size_bytes 0; of a VMM's: what it makes room for */
	CALL_FALLOCATE,
	CALL_FTRUNCATE, /* durable with OPEN_OF_SYNC_INODE only: no flag of its own matters */
	CALL_READ,      /* these five: only where reads are recorded */
	CALL_READV,
	CALL_PREAD64,
	CALL_PREADV,
	CALL_PREADV2,
	/* ioctl, FICLONE or FICLONERANGE: of the file that is given the data; result is -errno, or the
	 * upper half of how many bytes that is, and size_bytes the lower one. */
	CALL_CLONE,
	CALL_FAULT, /* of a page of a mapped file; only where reads are recorded */
};

/* A call of which only one end was seen, told as syscall_cut: it still ran when the recording ended
 * (result -EINPROGRESS), or it had begun before its programs were attached (enter_ns 0); or of which
 * neither was, by both. */

/* A thread whose calls are recorded: once when it is first seen, again after exec. */
struct thread_event {
	EVENT_HEADER;
	unsigned int tgid;
	unsigned int subject_tid; /* the thread named here (it need not be the current one) */
	unsigned int kind;        /* enum thread_kind; 0: a helper that is not recorded any more */
	char comm[16];
	char process[16]; /* comm of the process's first thread */
	/* When it was created, in units of 1024 ns, 32 bits of it: what takes an ended thread's
	 * number has another one; 0: not known. */
	unsigned int birth;
};

enum thread_kind {
	THREAD_TARGET = 1, /* of the workload */
	THREAD_JOURNAL,    /* commits a file system's journal */
	THREAD_WORKER,     /* works on a target's behalf (io_uring worker, log writer) */
	THREAD_VMM,        /* of a process that runs a virtual machine */
	THREAD_SERVER,     /* serves other machines' calls (nfsd) */
	THREAD_DAEMON,     /* of a process that serves other machines (virtiofsd) */
	THREAD_HELPER,     /* of the kernel, and has let a recorded thread go on, or did its work */
	THREAD_FUSE,       /* of a process that serves a file system on this machine */
	THREAD_LIBRBD,     /* of one of the workload's that has a disk of Ceph by its library */
	THREAD_BESIDE,     /* of none of these, but syncs where they do; told of as a task only */
};

/* A recorded thread runs again: off the CPU since off_ns, woken at wake_ns
 * (0: it was preempted and stayed runnable). */
struct sched_event {
	EVENT_HEADER;
	unsigned long long off_ns;
	unsigned long long wake_ns;
	unsigned int waker_tid;
	unsigned int state;       /* task state when it left the CPU; 0: preempted */
	unsigned int subject_tid; /* the thread that runs again */
	int stack; /* where it slept, as in the facts' stacks; negative: not recorded */
	unsigned short waker_cpu;
	unsigned short waker_context; /* enum wake_context */
	/* 1: a worker of the kernel's pools at another work than the one that it had slept in last:
	 * the thread when it left the CPU, and its waker when it let it go. */
	unsigned short other_work;
	unsigned short waker_other_work;
	/* Since when its CPU had had nothing to do before it ran; 0: another thread ran there. */
	unsigned long long idle_ns;
};

/* As what the waker's CPU woke the thread. */
enum wake_context {
	WAKE_UNKNOWN,   /* it was not, or the kernel does not tell */
	WAKE_THREAD,    /* the waker itself did */
	WAKE_INTERRUPT, /* an interrupt did, whatever thread it came upon */
	WAKE_TIMER,     /* so did the timer that the thread had set for that, and slept behind */
};

/* By the kernel's own count a thread left the CPU more often than it was seen to: the kernel ran no
 * program then.  Since it last ran again, or in the call that it ends.  enter_ns 0: in no call. */
struct hidden_event {
	EVENT_HEADER;
	unsigned long long enter_ns;
	unsigned int count;
	unsigned int pad;
};

/* A file system's sync of one file, recorded when it returns. */
struct fs_sync_event {
	EVENT_HEADER;
	unsigned long long enter_ns;
	unsigned long long inode;
	unsigned long long
		request_key; /* of the request that this thread works for; 0: its own call */
	unsigned int dev;
	unsigned int enter_transaction; /* jbd2 transaction the file waits for, at entry */
	unsigned int exit_transaction;  /* and at return; both 0: no journal, or not known */
	int result;
	unsigned int datasync;
};

/* A file system's sync of one file, where the kernel has a point at entry only; or of a disk itself
 * (inode is dev, as in aio_submit_event), by a worker of the kernel's, told before each bio that it
 * queues there. */
struct fs_enter_event {
	EVENT_HEADER;
	unsigned long long inode;
	unsigned long long request_key; /* as above */
	unsigned int dev;
	unsigned int datasync; /* or DATASYNC_UNKNOWN */
};

#define DATASYNC_UNKNOWN 2

/* In none of its calls that are recorded, a thread was at what others' syncs of a file system wait for
 * (btrfs: it synced there, or was in an ioctl), recorded when it has ended. */
struct fs_beside_event {
	EVENT_HEADER;
	unsigned long long enter_ns;
	unsigned int dev;
	unsigned int pad;
};

/* A phase of a jbd2 commit begins (or the commit ends). */
struct journal_event {
	EVENT_HEADER;
	unsigned long long journal_key;
	unsigned int dev;
	unsigned int transaction;
	unsigned int synchronous; /* somebody waits for it */
};

/* A fast commit of ext4 has ended: so many were the bios, of a block each, that its thread queued
 * last, and they are the log's. */
struct fast_commit_event {
	EVENT_HEADER;
	unsigned int dev;
	unsigned int block_count;
};

/* A log buffer of XFS: written, done, or waited for. */
struct iclog_event {
	EVENT_HEADER;
	unsigned long long iclog_key;
	unsigned long long bio_key; /* of the bio that writes it */
	unsigned long long lsn;
	unsigned int dev;
	unsigned int state;
};

/* Who queued a bio. */
enum queuer {
	QUEUER_PROGRAM,
	QUEUER_KERNEL_THREAD,
	QUEUER_LOOP, /* a kernel thread, for a loop device's request */
};

struct bio_event {
	EVENT_HEADER;
	unsigned long long bio_key;
	unsigned long long sector; /* 512-byte sectors from the start of the whole disk */
	unsigned int dev;          /* the whole disk, never a partition */
	unsigned int size_bytes;
	unsigned int flags;         /* bi_opf: the operation in the low 8 bits */
	unsigned int kernel_thread; /* enum queuer */
	/* A loop device's request that a kernel thread's direct I/O is for; 0: none.  Older recorders,
	 * which know no QUEUER_LOOP, tell anything where it is for none. */
	unsigned long long above_key;
	unsigned int held; /* 1: a control group's limit had held it back until now */
	/* Of what a kernel thread writes of a file: who wrote to that last; 0: not known. */
	unsigned int data_tid;
};

/* The front of a bio was split off, as a bio of its own, which is never queued. */
struct split_event {
	EVENT_HEADER;
	unsigned long long bio_key; /* what was split off */
	unsigned long long
		parent_key; /* the bio that it was split from and will complete, if one is there */
	unsigned long long sector;
	unsigned int dev;
	unsigned int size_bytes;
	unsigned int flags;
};

/* A bio is handed to another device (device mapper, md): old is where it was. */
struct remap_event {
	EVENT_HEADER;
	unsigned long long bio_key;
	unsigned long long sector;
	unsigned long long old_sector;
	unsigned int dev;
	unsigned int old_dev;
	unsigned int size_bytes;
	unsigned int flags;
};

struct request_event {
	EVENT_HEADER;
	unsigned long long request_key;
	unsigned long long
		bio_key; /* the request's first bio; 0 for a flush the block layer makes itself */
	unsigned long long sector;
	unsigned int dev;
	unsigned int size_bytes;
	unsigned int flags;          /* cmd_flags: the operation in the low 8 bits */
	int error;                   /* -errno, at completion only */
	unsigned int internal_flags; /* rq_flags */
	/* 1: issued or completed by a kernel thread itself, by no interrupt that came upon it */
	unsigned int by_kernel_thread;
};

/* A further bio of a request that is issued, besides the one that its own event names.
 * It took the place of block_bio_merge, which does not say into which request. */
struct request_bio_event {
	EVENT_HEADER;
	unsigned long long request_key;
	unsigned long long bio_key;
	unsigned long long sector;
	unsigned int dev;
	unsigned int size_bytes;
};

/* In an io_uring request's rwf, beside the kernel's flags: IOSQE_IO_LINK (or IOSQE_IO_HARDLINK),
 * what is submitted next begins when it is complete; IOSQE_CQE_SKIP_SUCCESS, only a failure is
 * told; IOSQE_IO_DRAIN, it begins when all that its ring was given before is complete. */
#define RWF_OF_DRAINED 0x20000000u
#define RWF_OF_LINKED 0x40000000u
#define RWF_OF_SILENT 0x80000000u

/* In ftruncate's rwf: its file becomes larger. */
#define RWF_OF_GROWING 1

/* An io_uring request, submitted, queued to a worker, or completed; one that is refused is
 * completed without having been submitted, and one for whose completion the ring has no room is
 * told as overflow_event. */
struct uring_event {
	EVENT_HEADER;
	unsigned long long request_key;
	long long offset_bytes;   /* at submission; -1: not known, or a sync of the whole file */
	unsigned long long inode; /* 0: the file is not known yet */
	unsigned int dev;
	unsigned int open_flags;
	unsigned int opcode;
	int result; /* at submission: completion_tag, as in overflow_event */
	unsigned int size_bytes;
	unsigned int rwf;
};

/* A completion for which the ring of io_uring had no room, and which the kernel keeps until there
 * is some. */
struct overflow_event {
	EVENT_HEADER;
	unsigned int completion_tag; /* of the ring, and of what the program calls the request */
	int result;
};

/* A libaio control block submitted; recorded when io_submit returns (time_ns), which was
 * entered at enter_ns. */
struct aio_submit_event {
	EVENT_HEADER;
	unsigned long long enter_ns;
	unsigned long long iocb_key; /* its address, told apart between processes */
	unsigned long long inode;
	long long offset_bytes;
	unsigned int dev;
	unsigned int open_flags;
	unsigned int size_bytes; /* 0: of a vector */
	unsigned char opcode;    /* IOCB_CMD_ */
	unsigned char rwf;
	unsigned short order; /* its place within the system call */
};

/* A libaio control block returned by io_getevents, times as above; or, with enter_ns 0,
 * completed by the kernel, for a process that may collect it without a system call. */
struct aio_complete_event {
	EVENT_HEADER;
	unsigned long long enter_ns;
	unsigned long long iocb_key;
	unsigned long long inode;
	unsigned int dev;
	int result;
	/* As of aio_submit_event; opcode 0 where the kernel completed it. */
	unsigned int open_flags;
	unsigned int opcode;
	unsigned int rwf;
};

/* The NFS client makes a call: to write, to commit what was written, or to read; or any other, for a
 * thread in a call of its own (of that one's file, wherever in it). */
struct nfs_call_event {
	EVENT_HEADER; /* tid: of the thread that the call is made for, or of a flusher */
	unsigned long long call_key; /* as in rpc_event */
	unsigned long long inode;    /* as in syscall_event */
	unsigned long long offset_bytes;
	/* Of what passes the page cache, the request that it is made for: as in uring_event, or
	 * aio_submit_event's iocb_key; odd: one that its caller waits for.  0: none. */
	unsigned long long request_key;
	unsigned int dev;
	unsigned int size_bytes;
	unsigned int stable;    /* of a write: 0 unstable, 1 data, 2 file, as in RFC 8881 */
	unsigned int operation; /* enum nfs_operation */
};

enum nfs_operation {
	NFS_WRITE = 1,
	NFS_COMMIT,
	NFS_READ, /* only where reads are recorded; else it is another */
	NFS_OTHER,
};

/* A remote procedure call that the NFS client made, recorded when it has ended. */
struct rpc_event {
	EVENT_HEADER;
	unsigned long long call_key; /* the rpc_task */
	unsigned long long send_ns;  /* encoded, handed to the transport (the first time) */
	unsigned long long ready_ns; /* data came in last before the reply was read; 0: not known */
	unsigned long long reply_ns; /* the reply was matched to the call */
	unsigned int xid;
	unsigned int connection; /* the client's port << 16 | the server's */
	/* A hash of the client's address and the server's, each as its own end knows them: where
	 * nothing between them changes one, client and server tell the same.  0: not known. */
	unsigned short ends;
};

/* A transport's connection, told now and then.  An address is an IPv6 one, or an IPv4 one
 * mapped into it, as two numbers in host order. */
struct connection_event {
	EVENT_HEADER;
	unsigned long long local_high;
	unsigned long long local_low;
	unsigned long long remote_high;
	unsigned long long remote_low;
	unsigned int connection; /* as in rpc_event */
	unsigned int rtt_us;     /* the kernel's smoothed round trip time, as in TCP_INFO */
	unsigned int rtt_deviation_us;
	unsigned int retransmit_count;
};

/* The connection of an NFS client's transport is there, or is not any more (TCP only). */
struct transport_event {
	EVENT_HEADER;
	unsigned long long transport_key;
	unsigned int connection; /* as in rpc_event; 0: not known */
	unsigned int connected;  /* 0, 1 */
};

/* A call that was sent before is sent once more. */
struct retransmit_event {
	EVENT_HEADER;
	unsigned long long transport_key;
	unsigned int xid;
	unsigned int connection; /* as in rpc_event; 0: none now */
};

/* A call of this machine's client begins to wait, or waits no more, for what is no answer. */
struct rpc_wait_event {
	EVENT_HEADER;
	unsigned long long call_key; /* as in rpc_event */
	unsigned int reason;         /* enum rpc_wait */
	unsigned int waits;          /* 1: from now on, 0: until now */
};

enum rpc_wait {
	RPC_WAIT_RECOVERY = 1, /* for the client to set up again what the server knew of it */
	RPC_WAIT_DELAY,        /* until it is time to try again */
};

/* A remote procedure call served, recorded when its reply is encoded (time_ns). */
struct svc_event {
	EVENT_HEADER;
	unsigned long long enqueue_ns; /* data came in last before all was read; 0: not known */
	unsigned long long dequeue_ns; /* this thread took it up, or was waiting for the data */
	unsigned long long receive_ns; /* the whole call had been read */
	unsigned long long offset_bytes;
	unsigned int size_bytes;
	unsigned int xid;
	unsigned int connection;  /* as in rpc_event */
	unsigned short operation; /* enum nfs_operation; 0: another */
	unsigned short ends;      /* as in rpc_event */
};

/* A request on its way into a virtqueue. */
struct virtio_add_event {
	EVENT_HEADER;
	unsigned long long queue_key;
	unsigned long long request_key; /* as in request_event */
	unsigned int head;              /* of its descriptors; -1: not known */
};

/* The guest tells the device of new requests: recorded at return. */
struct virtio_notify_event {
	EVENT_HEADER;
	unsigned long long queue_key;
	unsigned long long enter_ns;
};

/* The device's interrupt for used descriptors. */
struct virtio_interrupt_event {
	EVENT_HEADER;
	unsigned long long queue_key;
	unsigned int irq;
};

/* A request that a driver hands to another machine: where it is on its way. */
struct wire_event {
	EVENT_HEADER;
	unsigned long long request_key; /* as in request_event */
	unsigned long long wire_key;    /* what the other machine knows it by */
	unsigned int dev;
};

/* Its answer, or the end of what that brings, has been read. */
struct wire_answer_event {
	EVENT_HEADER;
	unsigned long long request_key; /* as in wire_event */
	unsigned long long wire_key;
	unsigned long long ready_ns; /* all of that had come in; 0: not known */
	unsigned int dev;
};

/* A virtual CPU was out of guest mode since exit_ns, recorded when it enters again. */
struct kvm_exit_event {
	EVENT_HEADER; /* tid: the virtual CPU's thread */
	unsigned long long exit_ns;
	unsigned int tgid;
	unsigned int vcpu;   /* its number in the machine; -1: not known */
	unsigned int reason; /* the processor's own number, see kvm_isa; -1: not known */
	unsigned int isa;    /* enum kvm_isa */
};

enum kvm_isa {
	KVM_ISA_VMX = 1,
	KVM_ISA_SVM,
};

/* An interrupt on its way into a virtual machine: asked for, or injected. */
struct kvm_interrupt_event {
	EVENT_HEADER;
	unsigned int tgid; /* 0: not known */
	unsigned int vcpu; /* -1: not known */
	unsigned int vector;
};

/* A device that a virtual machine has as its own has interrupted its host. */
struct vfio_event {
	EVENT_HEADER;
	unsigned int irq;
};

/* A request of a guest's virtio file system: its daemon takes it up, or answers it. */
struct virtiofs_event {
	EVENT_HEADER;
	unsigned long long unique; /* the request's number in its file system's connection */
	unsigned int tgid;         /* of the daemon: one for each file system */
	unsigned int opcode;       /* enum fuse_opcode of linux/fuse.h; 0: of an answer */
};

/* A kernel worker served a loop device's requests, one after the other, recorded when it was
 * done with all that were there. */
struct loop_work_event {
	EVENT_HEADER;
	unsigned long long enter_ns;
	unsigned int dev;
};

/* Written by the recorder itself, in a stream of its own. */

/* The machine's clocks, read together. */
struct clock_event {
	EVENT_HEADER; /* time_ns: CLOCK_MONOTONIC */
	unsigned long long boottime_ns;
	unsigned long long realtime_ns;
	unsigned long long tsc;
	unsigned long long width_ns; /* monotonic passed while the clocks were read: the bound */
};

/* Events that a ring refused so far, for one point on one CPU (cpu in the header). */
struct loss_event {
	EVENT_HEADER;
	unsigned long long lost_count;
	unsigned int lost_point;
};

/* Hits that the kernel skipped one BPF program for, between two looks at it: the program was
 * still at work on that CPU, preempted or interrupted.  What it would have recorded is lost. */
struct miss_event {
	EVENT_HEADER;
	unsigned long long since_ns;
	unsigned long long missed_count;
	char program[32];
};

/* What is not recorded, and may be what was asked for: so often so far. */
struct unseen_event {
	EVENT_HEADER;
	unsigned long long count;
	unsigned int kind; /* enum unseen_kind */
	unsigned int dev;  /* as in bio_event: where the last one was; 0: nowhere */
			   /* UNSEEN_LIBRBD: the process that has been looked at since; 0: never */
};

enum unseen_kind {
	UNSEEN_COMPAT = 1, /* 32-bit programs that began before their calls were looked at */
	UNSEEN_UNDECIDED,  /* calls of which --device cannot tell what disk they are for */
	UNSEEN_SYNC,       /* sync(2)s, which are for all disks: not one of --device's */
	UNSEEN_MAPPINGS,   /* msync(2)s over several mappings: what is behind the first one */
	UNSEEN_LIBRBD,     /* disks of Ceph that programs of the workload have by themselves */
	UNSEEN_DISCARDS,   /* what their library is asked for otherwise: discards, zeros */
	UNSEEN_HANGING,    /* calls that began before the recording, and are not over yet */
	UNSEEN_RESTS, /* parts split off bios, before it was looked at when the last of those goes on */
};

#define UNSEEN_KINDS 9

/* A part of a file's path, when it is first used under that name: its own name first, then
 * its directory's, up to the root of its file system.  A long name takes several parts. */
struct file_name_event {
	EVENT_HEADER;
	unsigned long long inode; /* as in syscall_event */
	unsigned int dev;
	unsigned int root_dev;   /* whose root the path begins at: of a device's node another */
	unsigned short part;     /* from 0 */
	unsigned char component; /* 0: the file's own name, 1: its directory's, ... */
	unsigned char last;      /* 1: the root, which has no name: the path is complete */
	char text[28];           /* ends with a zero byte */
};

/* A file system is met by a number that was none yet, or another's: the mount table of a container
 * is its own, and numbers are used again. */
struct file_system_event {
	EVENT_HEADER;
	unsigned int dev;
	unsigned int
		below_dev; /* its disk, or the file system that an overlay writes to; 0: none */
	char type[24];     /* as in the mount table, without what a daemon adds (fuse.sshfs) */
};

/* What one BPF program has cost so far (needs kernel.bpf_stats_enabled). */
struct cost_event {
	EVENT_HEADER;
	unsigned long long run_ns;
	unsigned long long run_count;
	char program[24];
};

/* The recorder's own cost so far; the first one, at the start, is what setting up took. */
struct recorder_event {
	EVENT_HEADER;
	unsigned long long cpu_ns;
	unsigned long long event_count;
	unsigned long long lost_count;
	unsigned long long stolen_ns; /* of all CPUs, by a hypervisor, since boot; 0: not asked */
};

/* Whether a program is attached: error 0, or why not (-errno); at the start, and if that changes. */
struct probe_event {
	EVENT_HEADER;
	int error;
	char program[24];
};

/* How often a table of the recorder had no room so far: what it was for is not recorded. */
struct full_event {
	EVENT_HEADER;
	unsigned long long refused_count;
	unsigned int last;  /* what it was for last: a thread, or a device as in bio_event */
	unsigned int table; /* enum table */
};

enum table {
	TABLE_THREADS,
	TABLE_DEVICES, /* that are watched, and those below them */
};

#define TABLES 2

/* Why the recording ended; there is none if the recorder was killed. */
struct end_event {
	EVENT_HEADER;
	unsigned int reason; /* enum end_reason */
	/* Processes of the command's that still ran when it had ended. */
	unsigned int outlived_count;
};

enum end_reason {
	END_COMMAND = 1, /* the command had ended */
	END_DURATION,
	END_ASKED,     /* by a signal, or by who had started it */
	END_ABANDONED, /* who had started it was gone */
};

/* Who had a CPU while a recorded thread was waiting for it; told once for all that waited. */
struct run_event {
	EVENT_HEADER;
	unsigned long long begin_ns;
	unsigned long long end_ns;
	unsigned long long cgroup; /* as in task_event */
	unsigned int tgid;         /* 0: nobody, it was idle */
	unsigned short ran_cpu;
	unsigned short pad;
	char process[16]; /* comm of the process's first thread */
};

/* A recorded thread that was waiting for a CPU is moved to another one (time_ns). */
struct move_event {
	EVENT_HEADER;
	unsigned long long since_ns; /* waiting on the one that it is taken from */
	unsigned int subject_tid;
	unsigned int from_cpu;
};

/* Who a thread is that asks a watched disk for something: once, and again after exec. */
struct task_event {
	EVENT_HEADER;
	unsigned long long cgroup; /* its id in version 2 of control groups; 0: not known */
	unsigned int tgid;
	unsigned int subject_tid;
	char comm[16];
	char process[16]; /* comm of the process's first thread */
};

/* A thread that runs again could have run earlier, but for its control group's CPU quota; where no
 * sched_resume is beside it, that had stopped it while it was in no call. */
struct throttle_event {
	EVENT_HEADER;
	unsigned long long since_ns;     /* runnable */
	unsigned long long throttled_ns; /* for how long of that at least a limit kept it */
	unsigned int subject_tid;
	unsigned int own; /* 1: its own runtime (SCHED_DEADLINE), and no group's quota */
	/* Which group's limit it was: its id, and above CGROUP_ID_BITS of that the number of the
	 * hierarchy, which is 0 in version 2; 0: not known. */
	unsigned long long cgroup;
};

#define CGROUP_ID_BITS 56

/* What stops a thread on its way back to user space: a quota, a signal (SIGSTOP, one that its tracer
 * is told of), a control group's freezer; or another thread has its CPU, behind the end of a call
 * that was recorded. */
enum stop {
	STOP_NONE,
	STOP_QUOTA,
	STOP_SIGNAL,
	STOP_FREEZER,
	STOP_PREEMPTED
};

/* A thread that was stopped while it was in no call runs again (time_ns); what quotas stop is in
 * sched_throttled. */
struct stopped_event {
	EVENT_HEADER;
	unsigned long long since_ns;
	unsigned int subject_tid;
	unsigned int by;            /* enum stop */
	unsigned long long call_ns; /* STOP_PREEMPTED: when that call began; else 0 */
};

/* A bio that a control group's limit had held back is queued now (time_ns); or the worker for what
 * limits hold back is at what is left of one that was split, which it queues no more. */
struct held_event {
	EVENT_HEADER;
	unsigned long long bio_key;
	unsigned long long cgroup; /* whose it is, numbered as above */
	/* aio_event's iocb_key, uring_event's request_key, if one of those is under way: a file's
	 * direct I/O.  Anything else: it is of none. */
	unsigned long long request_key;
	/* the file whose pages of the page cache it writes or reads, 0: of none, or not one alone */
	unsigned long long inode;
	unsigned int dev;
	/* 1: of what is left; if that was held back, the worker has come to it out of a rest of its own
	 * since the part before was split off */
	unsigned int rest;
};

/* Who hands on a bio has slept, and runs again (time_ns): there was no request for it, a limit of
 * the queue kept it from one, or the queue was frozen.  Last told when it has one, but for the CPU's time until then. */
struct asleep_event {
	EVENT_HEADER;
	unsigned long long bio_key;
	unsigned int dev;
	unsigned int subject_tid;
	unsigned long long off_ns; /* since when it had slept */
	/* 1: nobody's requests were let into the queue when it fell asleep, as somebody changes what is
	 * set for it, or its driver begins anew. */
	unsigned int frozen;
	unsigned int pad;
};

/* What one thread's handles have changed of the metadata that a commit writes. */
struct handles_event {
	EVENT_HEADER;
	unsigned int dev;
	unsigned int transaction;
	unsigned int subject_tid; /* 0: of all that there was no room to tell apart */
	unsigned int block_count; /* which were part of the transaction by it first */
};

/* A worker of io_uring, or of a target, is at another request than it was when this was said
 * last; or at one part of what an initiator and a target of NVMe send each other of one; or what a
 * request of io_uring is linked behind, which is not recorded, is complete. */
struct uring_work_event {
	EVENT_HEADER;
	unsigned long long
		request_key; /* as in uring_event, nvme_event; 0: none that is recorded */
};

/* A kernel worker that is recorded from now on, as somebody has waited for it, had been idle, or
 * asleep until it was let go at wake_ns, and runs since on_ns. */
struct woken_event {
	EVENT_HEADER;
	unsigned long long wake_ns;
	unsigned long long on_ns;
	unsigned int waker_tid;
	unsigned int state; /* as in sched_event, and so are these: */
	unsigned int subject_tid;
	unsigned short waker_cpu;
	unsigned short waker_context;
};

/* A command of NVMe over TCP, of the initiator's or of the target's. */
struct nvme_event {
	EVENT_HEADER;
	unsigned long long request_key; /* as in request_event; of the target: its control block */
	unsigned long long ready_ns; /* data came in: of the initiator's, last by its connection; of
					  * the target's, the command, without its data; 0: not known */
	unsigned long long offset_bytes; /* these three: of the target, once it is carried out */
	unsigned int size_bytes;
	unsigned int dev;        /* as in bio_event, or of a file's superblock */
	unsigned int connection; /* as in rpc_event */
	unsigned short ends;     /* as in rpc_event */
	unsigned short host;     /* a hash of the initiator's host id, which both know */
	/* What both number: the controller, its queue, and the command, with its generation. */
	unsigned short controller;
	unsigned short queue;
	unsigned short command;
	unsigned char opcode;
	unsigned char failed; /* of the initiator's: its answer says so, or there was none */
};

/* A command whose data came later than itself is carried out: all of that is there. */
struct nvme_data_event {
	EVENT_HEADER;
	unsigned long long request_key; /* as in nvme_event */
	unsigned long long ready_ns;    /* the last of it came in, 0: not known */
	unsigned int asked;             /* it was asked for (R2T), 0: it came with the command */
};

/* A command of iSCSI, at its initiator: going to the connection, with it as far as it was asked for,
 * asked for more data of, or answered. */
struct iscsi_event {
	EVENT_HEADER;
	unsigned long long request_key; /* as in request_event */
	unsigned int dev;
	unsigned int itt;        /* the initiator's number of it, as on the wire */
	unsigned int connection; /* as in rpc_event; 0: not known */
	unsigned short ends;     /* as in rpc_event */
};

/* A command of iSCSI that this machine's target has: it is there, or complete. */
struct target_event {
	EVENT_HEADER;
	unsigned long long command_key;
	unsigned long long ready_ns;     /* it came in, without more data; 0: not known */
	unsigned long long offset_bytes; /* on its disk, once it is complete */
	unsigned int size_bytes;         /* 0: it only makes durable */
	unsigned int itt;                /* as in iscsi_event */
	unsigned int connection;         /* as in rpc_event */
	unsigned short ends;             /* as in rpc_event */
	unsigned short lun;
	unsigned short r2t_count; /* so often it was asked for more data */
	unsigned char opcode;     /* of SCSI */
	unsigned char fua;
};

/* The thread that reads a target's commands is at another one, as in uring_work_event; or asks for
 * more data of one (R2T), as what it had before came in; or an initiator of NVMe reads that. */
struct target_work_event {
	EVENT_HEADER;
	unsigned long long request_key;
	unsigned long long ready_ns; /* the last of its data, or an R2T, came in; 0: not known */
};

/* A PDU of such a command is with the connection. */
struct target_sent_event {
	EVENT_HEADER;
	unsigned long long command_key; /* as in target_event */
	unsigned int sequence;          /* as in stream_event */
};

/* What a target reads for a command it reads from a file, not from a disk: told as it is carried
 * out, only where reads are recorded. */
struct target_file_event {
	EVENT_HEADER;
	unsigned long long request_key; /* as in uring_work_event */
	unsigned long long inode;       /* as in syscall_event; 0: a block device's node */
	unsigned int dev; /* of the file's superblock, or the device itself; 0: it is not known */
	unsigned int open_flags; /* as in syscall_event */
};

/* Which part of a file the pages hold that a bio reads into: told behind block_bio_queue, only
 * where reads are recorded. */
struct bio_file_event {
	EVENT_HEADER;
	unsigned long long bio_key;
	unsigned long long inode; /* as in syscall_event; 0: of a block device's node */
	unsigned long long offset_bytes;
	unsigned int dev; /* of the file's superblock, or the device itself */
	unsigned int size_bytes;
	/* Behind the last of its pages; 0: not known.  Those on both sides of a hole follow one
	 * another on the disk if the file's blocks do: then that is farther away than size_bytes. */
	unsigned long long end_bytes;
};

/* A request of a file system whose daemon is in user space (FUSE), answered by this thread. */
struct fuse_event {
	EVENT_HEADER;
	unsigned long long unique; /* the request's number in its file system's connection */
	unsigned long long send_ns;
	unsigned long long offset_bytes; /* of a write */
	unsigned int size_bytes;
	unsigned int dev; /* of the file system's superblock: its connection */
	unsigned int asking_tid;
	unsigned int opcode; /* enum fuse_opcode of linux/fuse.h */
	int error;
};

/* A daemon's thread has taken a request up. */
struct fuse_take_event {
	EVENT_HEADER;
	unsigned long long unique; /* as in fuse_event; 0: not told (it was spliced) */
	unsigned int dev;
	unsigned int opcode;
};

/* A request of a 9p file system's client, told by the thread that asked, once it has the answer. */
struct ninep_event {
	EVENT_HEADER;
	unsigned long long request_key; /* the client's, of what it waits for */
	unsigned long long send_ns;
	unsigned long long offset_bytes; /* of a write or a read */
	/* Which file it is about, as its server numbers files (qid.path): QEMU's, as its host does;
	 * 0: not known. */
	unsigned long long path;
	unsigned int size_bytes; /* written or read, as the answer has it */
	unsigned int dev;        /* of the file system's superblock; 0: not known */
	int error;
	unsigned short tag;  /* its number on the wire meanwhile */
	unsigned short type; /* enum p9_msg_t of net/9p/9p.h */
};

/* An operation of Ceph that a disk's driver (rbd) hands to the messenger, which that begins to send,
 * and all of which TCP has, or that is answered. */
struct rbd_event {
	EVENT_HEADER;
	unsigned long long request_key;    /* as in request_event */
	unsigned long long number;         /* the client's of its operations (tid) */
	unsigned long long client;         /* the number that the cluster gave to it */
	unsigned long long ready_ns;       /* all of the answer came in, 0: not known, or not yet */
	unsigned long long connection_key; /* the messenger's, 0: not known */
	unsigned int dev;
	int osd_number; /* that it is for, or that answered; -1: none that is known */
};

/* What a program asks of a disk of Ceph by its library (librbd); answered in its own time. */
struct librbd_request_event {
	EVENT_HEADER;
	unsigned long long request_key; /* its completion's: used again once that is answered */
	unsigned long long image_key;
	unsigned long long offset_bytes;
	unsigned long long size_bytes;
	unsigned int tgid;
	unsigned int flushes; /* 0: it writes */
};

/* An operation that a program's library of Ceph (librados) begins to send, or whose answer is
 * there (then its number and who answers only). */
struct librados_event {
	EVENT_HEADER;
	unsigned long long number;       /* the client's of its operations (tid) */
	unsigned long long client;       /* the number that the cluster gave to it */
	unsigned long long object;       /* which one of its disk's */
	unsigned long long offset_bytes; /* in that */
	unsigned int size_bytes;         /* written, or read, there; 0: nothing of a disk's is */
	unsigned int tgid;
	int osd_number;     /* that answers */
	unsigned int image; /* a hash of the id of the disk that the object is of; 0: of none */
};

/* How a disk of Ceph lies on its objects, as a program's library has it in its memory. */
struct librbd_image_event {
	EVENT_HEADER;
	unsigned long long image_key;
	unsigned int image; /* as an operation has it */
	unsigned int object_bytes;
	unsigned int stripe_bytes; /* that lie side by side in one object, then in the next one */
	unsigned int stripe_objects;
	unsigned int tgid;
};

/* A message that an OSD of Ceph makes an operation of, or sends to another OSD, or whose turn it is
 * on its connection (then without whom it is for, or which it answers). */
struct osd_event {
	EVENT_HEADER;
	unsigned long long op_key; /* of what is sent: what the thread is at, 0: nothing */
	unsigned long long number; /* its sender's (tid); an answer has that of what it answers */
	unsigned long long peer;   /* who sent it, or whom it is sent to, among its kind */
	unsigned long long message_key;
	unsigned int tgid;
	int osd_number;           /* which this one is; -1: not known */
	unsigned short type;      /* of Ceph's messages */
	unsigned short peer_kind; /* a CEPH_ENTITY_TYPE_..., as the messages have it */
};

/* An OSD is about to answer its client. */
struct osd_reply_event {
	EVENT_HEADER;
	unsigned long long op_key;
	unsigned long long size_bytes; /* that were written */
};

/* Where a transaction of BlueStore is. */
struct bluestore_event {
	EVENT_HEADER;
	unsigned long long op_key; /* what the thread is at, 0: nothing */
	unsigned long long transaction_key;
};

/* A packet of TCP's with data, at a network device: handed to its driver, or over by it.  Several
 * that were merged, or are yet to be split, are one. */
struct packet_event {
	EVENT_HEADER;
	unsigned int sequence; /* of its first byte of data */
	unsigned int size_bytes;
	unsigned int connection; /* as in rpc_event, as its addresses and ports are here */
	unsigned int device;     /* the device's number (ifindex) */
	unsigned short ends;     /* as in rpc_event */
	unsigned short to_server;
};

/* A call, or its reply, or a command of iSCSI was handed to TCP, or one of NVMe, or its response,
 * is to be next: where in the stream it ends. */
struct stream_event {
	EVENT_HEADER;
	unsigned int xid;        /* of iSCSI its tag, of NVMe its command, as in their events */
	unsigned int sequence;   /* of the first byte behind it */
	unsigned int connection; /* as in rpc_event */
	unsigned short ends;
};

/* number and name of each point: POINT_name, the struct that it fills */
#define POINTS(P)                                   \
	P(syscall, syscall_event)                   \
	P(thread, thread_event)                     \
	P(sched_resume, sched_event)                \
	P(ext4_sync_file, fs_sync_event)            \
	P(xfs_file_fsync, fs_enter_event)           \
	P(btrfs_sync_file, fs_enter_event)          \
	P(jbd2_start_commit, journal_event)         \
	P(jbd2_commit_locking, journal_event)       \
	P(jbd2_commit_flushing, journal_event)      \
	P(jbd2_commit_logging, journal_event)       \
	P(jbd2_end_commit, journal_event)           \
	P(xlog_iclog_sync, iclog_event)             \
	P(xlog_iclog_sync_done, iclog_event)        \
	P(xlog_iclog_wait_on, iclog_event)          \
	P(block_bio_queue, bio_event)               \
	P(block_bio_merge, bio_event)               \
	P(block_bio_complete, bio_event)            \
	P(block_bio_remap, remap_event)             \
	P(block_io_start, request_event)            \
	P(block_rq_insert, request_event)           \
	P(block_rq_issue, request_event)            \
	P(block_rq_requeue, request_event)          \
	P(block_rq_complete, request_event)         \
	P(io_uring_submit_req, uring_event)         \
	P(io_uring_queue_async_work, uring_event)   \
	P(io_uring_complete, uring_event)           \
	P(aio_submit, aio_submit_event)             \
	P(aio_complete, aio_complete_event)         \
	P(clock_sample, clock_event)                \
	P(loss, loss_event)                         \
	P(cost, cost_event)                         \
	P(recorder, recorder_event)                 \
	P(probe, probe_event)                       \
	P(block_getrq, bio_event)                   \
	P(nfs_sync_file, fs_sync_event)             \
	P(nfs_call, nfs_call_event)                 \
	P(rpc_call, rpc_event)                      \
	P(rpc_connection, connection_event)         \
	P(svc_call, svc_event)                      \
	P(virtio_add, virtio_add_event)             \
	P(virtio_notify, virtio_notify_event)       \
	P(virtio_interrupt, virtio_interrupt_event) \
	P(kvm_exit, kvm_exit_event)                 \
	P(kvm_msi, kvm_interrupt_event)             \
	P(kvm_inject, kvm_interrupt_event)          \
	P(miss, miss_event)                         \
	P(block_split, split_event)                 \
	P(block_rq_bio, request_bio_event)          \
	P(nbd_payload_sent, wire_event)             \
	P(nbd_header_received, wire_answer_event)   \
	P(full, full_event)                         \
	P(virtiofs_request, virtiofs_event)         \
	P(virtiofs_reply, virtiofs_event)           \
	P(end, end_event)                           \
	P(unseen, unseen_event)                     \
	P(sched_ran, run_event)                     \
	P(sched_moved, move_event)                  \
	P(task, task_event)                         \
	P(file_name, file_name_event)               \
	P(sched_throttled, throttle_event)          \
	P(rpc_transport, transport_event)           \
	P(rpc_retransmit, retransmit_event)         \
	P(loop_work, loop_work_event)               \
	P(block_bio_held, held_event)               \
	P(jbd2_handles, handles_event)              \
	P(rpc_wait, rpc_wait_event)                 \
	P(io_uring_work, uring_work_event)          \
	P(sched_woken, woken_event)                 \
	P(nvme_setup_cmd, wire_event)               \
	P(nvme_tcp_send, wire_event)                \
	P(nvme_complete_rq, nvme_event)             \
	P(nvmet_req_init, nvme_event)               \
	P(nvmet_req_complete, nvme_event)           \
	P(nvmet_work, uring_work_event)             \
	P(iscsi_sent, iscsi_event)                  \
	P(iscsi_answered, iscsi_event)              \
	P(target_sequencer_start, target_event)     \
	P(target_cmd_complete, target_event)        \
	P(target_work, target_work_event)           \
	P(target_sent, target_sent_event)           \
	P(block_bio_file, bio_file_event)           \
	P(fuse_request, fuse_event)                 \
	P(fuse_take, fuse_take_event)               \
	P(syscall_cut, syscall_event)               \
	P(ninep_request, ninep_event)               \
	P(rbd_sent, rbd_event)                      \
	P(rbd_answered, rbd_event)                  \
	P(osd_message, osd_event)                   \
	P(osd_send, osd_event)                      \
	P(osd_work, uring_work_event)               \
	P(osd_reply, osd_reply_event)               \
	P(bluestore_begin, bluestore_event)         \
	P(bluestore_data, bluestore_event)          \
	P(bluestore_ready, bluestore_event)         \
	P(bluestore_submit, bluestore_event)        \
	P(bluestore_synced, bluestore_event)        \
	P(bluestore_done, bluestore_event)          \
	P(osd_written, osd_event)                   \
	P(vfio_interrupt, vfio_event)               \
	P(ext4_fc_commit_stop, fast_commit_event)   \
	P(nbd_payload_received, wire_answer_event)  \
	P(target_file, target_file_event)           \
	P(block_bio_asleep, asleep_event)           \
	P(sched_hidden, hidden_event)               \
	P(packet_sent, packet_event)                \
	P(packet_received, packet_event)            \
	P(rpc_stream, stream_event)                 \
	P(svc_stream, stream_event)                 \
	P(nvmet_data, nvme_data_event)              \
	P(librbd_request, librbd_request_event)     \
	P(librbd_done, uring_work_event)            \
	P(librbd_sent, librados_event)              \
	P(librbd_answered, librados_event)          \
	P(iscsi_stream, stream_event)               \
	P(librbd_image, librbd_image_event)         \
	P(librbd_sent_read, librados_event)         \
	P(target_asked, target_work_event)          \
	P(iscsi_asked, iscsi_event)                 \
	P(nvmet_answer, uring_work_event)           \
	P(iscsi_handed, iscsi_event)                \
	P(rbd_message, rbd_event)                   \
	P(rbd_handed, rbd_event)                    \
	P(nvmet_asked, uring_work_event)            \
	P(nvme_tcp_asked, target_work_event)        \
	P(nvme_tcp_handed, uring_work_event)        \
	P(nvme_stream, stream_event)                \
	P(nvmet_stream, stream_event)               \
	P(io_uring_cqe_overflow, overflow_event)    \
	P(io_uring_unlinked, uring_work_event)      \
	P(sched_stopped, stopped_event)             \
	P(file_system, file_system_event)           \
	P(blkdev_fsync, fs_enter_event)             \
	P(btrfs_beside, fs_beside_event)

#define POINT_NUMBER(name, type) POINT_##name,
enum point {
	POINT_none,
	POINTS(POINT_NUMBER) POINT_count
};
#undef POINT_NUMBER

/* Anchors the types in the object's BTF: member n (from 0) is point n + 1. */
#define POINT_MEMBER(name, type) struct type name;
union event {
	POINTS(POINT_MEMBER)
	unsigned char bytes[EVENT_BYTES];
};
#undef POINT_MEMBER

_Static_assert(sizeof(union event) == EVENT_BYTES, "an event outgrew its slot");

#endif
