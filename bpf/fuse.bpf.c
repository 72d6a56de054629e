// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * File systems in user space: what is asked of their daemons, when a daemon took it up, and who
 * answered.  The kernel's points are there since Linux 396b209e405a (in v6.12).  A request has a
 * number, unique to its connection, that the first one tells only since Linux 0d375a1385ed (in
 * v6.18): until it is answered it is known by its address.
 *
 * Whoever answers a recorded thread is of a daemon: its process is recorded from then on, if any
 * such file system was there when the recording began.
 */
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/ptrace.h>

#include "file.bpf.h"
#include "stand_in.bpf.h"

#include <bpf/bpf_tracing.h>

#define S_IFCHR 0020000
#define FUSE_DEVICE (10u << 20 | 229) /* FUSE_MINOR of linux/miscdevice.h */

/* enum fuse_opcode of linux/fuse.h */
#define FUSE_WRITE 16
#define FUSE_FSYNC 20
#define FUSE_FSYNCDIR 30
#define FUSE_SYNCFS 50

#define MAX_ASKED 4096

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct fuse_conn {
	__u32 dev;
};

struct fuse_mount {
	struct fuse_conn *fc;
};

/* Between a request, or a daemon's end, and its connection where there is one (7.2 has it). */
struct fuse_chan {
	struct fuse_conn *conn;
};

struct fuse_dev {
	struct fuse_conn *fc;
	struct fuse_chan *chan;
};

struct fuse_in_arg {
	unsigned int size;
	const void *value;
};

struct fuse_args {
	struct fuse_in_arg in_args[1];
};

struct fuse_in_header {
	__u32 opcode;
	__u64 unique;
};

struct fuse_out_header {
	__s32 error;
};

struct fuse_req {
	struct fuse_args *args;
	struct {
		struct fuse_in_header h;
	} in;
	struct {
		struct fuse_out_header h;
	} out;
	struct fuse_mount *fm;
	struct fuse_chan *chan;
};

#pragma clang attribute pop

/* What the daemon is given of any request, and behind that of a write (linux/fuse.h). */
struct request_head {
	__u32 length;
	__u32 opcode;
	__u64 unique;
	__u64 rest[3];
};

struct write_head {
	__u64 handle;
	__u64 offset_bytes;
	__u32 size_bytes;
};

/* A request under way.  told: it is recorded, and not only the way to find its daemon. */
struct asked {
	__u64 send_ns;
	__u64 offset_bytes;
	__u32 size_bytes;
	__u32 dev;
	__u32 tid;
	__u16 opcode;
	__u16 told;
};

/* By address. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_ASKED);
	__type(key, __u64);
	__type(value, struct asked);
} fuse_asked SEC(".maps");

struct fuse_exit_context {
	__u64 common;
	int nr;
	__s64 result;
};

/* Whose connection a request is of. */
static __always_inline __u32 asked_of(struct fuse_req *req)
{
	if (bpf_core_field_exists(req->chan))
		return BPF_CORE_READ(req, chan, conn, dev);
	return BPF_CORE_READ(req, fm, fc, dev);
}

/* Sent by somebody else, a recorded thread may wait for it (a page that is written back). */
static __always_inline bool is_awaited_by_others(__u32 opcode, __u32 dev)
{
	return watch_of(dev) & WATCH_FS && (opcode == FUSE_WRITE || opcode == FUSE_FSYNC ||
					    opcode == FUSE_FSYNCDIR || opcode == FUSE_SYNCFS);
}

PROGRAM("tp_btf/fuse_request_send", fuse_send, __u64 *ctx)
{
	struct fuse_req *req = ARGUMENT(struct fuse_req *, 0);
	struct thread *thread = thread_of(current_tid());
	__u64 key = argument_key(ctx, 0);
	struct asked asked = {};

	if (!req)
		return 0;
	asked.opcode = req->in.h.opcode;
	asked.dev = asked_of(req);
	asked.told = thread && thread_at_work(thread);
	if (!asked.told)
		asked.told = is_awaited_by_others(asked.opcode, asked.dev);
	if (!asked.told && (!thread || !is_of_process(THREAD_FUSE)))
		return 0;
	if (asked.opcode == FUSE_WRITE) {
		const void *value = BPF_CORE_READ(req, args, in_args[0].value);
		struct write_head head = {};

		bpf_probe_read_kernel(&head, sizeof(head), value);
		asked.offset_bytes = head.offset_bytes;
		asked.size_bytes = head.size_bytes;
	}
	asked.tid = current_tid();
	asked.send_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&fuse_asked, &key, &asked, BPF_ANY);
	return 0;
}

/* The process's first thread makes its other ones known, when they come to the next request. */
static __always_inline void daemon_is(__u32 tid, __u32 tgid, bool itself)
{
	struct thread *thread = thread_of(tid);

	if (!thread) {
		thread_add(tid, tgid, THREAD_FUSE);
	} else if (thread->kind < THREAD_TARGET || (itself && thread->kind == THREAD_TARGET)) {
		thread_becomes(thread, THREAD_FUSE);
	}
}

/* Whoever ends it has served it, unless that is a worker of the kernel (virtiofs), who asked (it
 * was interrupted), or who ended the connection. */
static __always_inline void meet_daemon(const struct asked *asked, int error)
{
	__u64 ids = current_ids();
	struct thread *thread = thread_of(ids);

	if (!is_of_process(THREAD_FUSE) || (thread && thread->kind == THREAD_FUSE) ||
	    error == -ECONNABORTED || (__u32)ids == asked->tid || current_is_kernel_thread())
		return;
	daemon_is(ids >> 32, ids >> 32, false);
	daemon_is(ids, ids >> 32, true);
	thread = thread_of(ids);
	if (thread)
		thread_announce(thread);
}

PROGRAM("tp_btf/fuse_request_end", fuse_end, __u64 *ctx)
{
	struct fuse_req *req = ARGUMENT(struct fuse_req *, 0);
	__u64 key = argument_key(ctx, 0);
	struct asked asked, *found;
	union event *e;
	int error;

	found = bpf_map_lookup_elem(&fuse_asked, &key);
	if (!req || !found)
		return 0;
	asked = *found;
	bpf_map_delete_elem(&fuse_asked, &key);
	error = req->out.h.error;
	meet_daemon(&asked, error);
	if (!asked.told)
		return 0;
	e = emit_reserve(POINT_fuse_request);
	if (!e)
		return 0;
	e->fuse_request.unique = req->in.h.unique;
	e->fuse_request.send_ns = asked.send_ns;
	e->fuse_request.offset_bytes = asked.offset_bytes;
	e->fuse_request.size_bytes = asked.size_bytes;
	e->fuse_request.dev = asked.dev;
	e->fuse_request.asking_tid = asked.tid;
	e->fuse_request.opcode = asked.opcode;
	e->fuse_request.error = error;
	emit_submit(e, POINT_fuse_request);
	return 0;
}

/* The connection that a descriptor of the current process is a daemon's end of, 0: of none. */
static __always_inline __u32 connection_of(__u32 descriptor)
{
	struct file *file = (struct file *)file_of_descriptor(descriptor);
	struct inode *inode = file ? PEEK(file, f_inode) : NULL;
	struct fuse_conn *connection;
	struct fuse_dev *device;

	if (!inode || (PEEK(inode, i_mode) & S_IFMT) != S_IFCHR ||
	    PEEK(inode, i_rdev) != FUSE_DEVICE)
		return 0;
	device = PEEK(file, private_data);
	if (!device)
		return 0;
	if (bpf_core_field_exists(device->chan))
		connection = BPF_CORE_READ(device, chan, conn);
	else
		connection = PEEK(device, fc);
	return connection ? PEEK(connection, dev) : 0;
}

static __always_inline void taken(__u32 dev, const struct request_head *head)
{
	union event *e = emit_reserve(POINT_fuse_take);

	if (!e)
		return;
	e->fuse_take.unique = head->unique;
	e->fuse_take.dev = dev;
	e->fuse_take.opcode = head->opcode;
	emit_submit(e, POINT_fuse_take);
}

/* The return of read, readv or splice: of what was spliced nothing tells which request it is. */
SEC("tp")
int fuse_taken(struct fuse_exit_context *ctx)
{
	struct request_head head = {};
	struct thread *thread;
	struct pt_regs *regs;
	__u64 buffer;
	__u32 dev;

	if (ctx->result < (__s64)sizeof(head) || !bpf_helper_exists(task_pt_regs) ||
	    !bpf_core_type_exists(struct fuse_dev))
		return 0;
	thread = thread_that_serves();
	if (!thread || thread->kind != THREAD_FUSE)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(current_task());
	dev = connection_of(FIRST_ARGUMENT(regs));
	if (!dev || !(watch_of(dev) & WATCH_FS))
		return 0;
	buffer = PT_REGS_PARM2_SYSCALL(regs);
	if (ctx->nr == __NR_readv)
		bpf_probe_read_user(&buffer, sizeof(buffer), (void *)buffer);
	if (ctx->nr != __NR_splice)
		bpf_probe_read_user(&head, sizeof(head), (void *)buffer);
	thread_announce(thread);
	taken(dev, &head);
	return 0;
}
