// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * virtiofsd (QEMU's, in C): the requests of a guest's file system that it takes up and
 * answers, as its own functions tell.  A request's number is unique to its file system.
 */
#include <linux/ptrace.h>

#include "thread.bpf.h"

#include <bpf/bpf_tracing.h>

/* Where struct fuse_bufvec, of libfuse, has the memory of its first buffer. */
#define BUFFER_MEMORY 40

/* What a request begins with, and an answer (linux/fuse.h). */
struct fuse_request {
	__u32 length;
	__u32 opcode;
	__u64 unique;
};

struct fuse_answer {
	__u32 length;
	__s32 error;
	__u64 unique;
};

static __always_inline bool read_user(void *to, __u32 size, __u64 address)
{
	return address && !bpf_probe_read_user(to, size, (void *)address);
}

static __always_inline int emit(__u64 unique, __u32 opcode, __u32 point)
{
	struct thread *thread = thread_of(current_tid());
	union event *e;

	if (!thread)
		return 0;
	thread_announce(thread);
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->virtiofs_request.unique = unique;
	e->virtiofs_request.opcode = opcode;
	e->virtiofs_request.tgid = thread->tgid;
	emit_submit(e, point);
	return 0;
}

/* The daemon's thread; NULL: another process has this file mapped. */
static __always_inline struct thread *daemon_thread(void)
{
	struct thread *thread = thread_that_serves();

	return thread && thread->kind == THREAD_DAEMON ? thread : NULL;
}

/* fuse_session_process_buf_int(session, buffers, channel) */
SEC("uprobe")
int virtiofs_request(struct pt_regs *ctx)
{
	struct fuse_request request;
	__u64 memory;

	if (!daemon_thread())
		return 0;
	if (read_user(&memory, sizeof(memory), PT_REGS_PARM2(ctx) + BUFFER_MEMORY) &&
	    read_user(&request, sizeof(request), memory))
		return emit(request.unique, request.opcode, POINT_virtiofs_request);
	emit_lost(current_cpu(), POINT_virtiofs_request);
	return 0;
}

/* virtio_send_msg(session, channel, vector, count) */
SEC("uprobe")
int virtiofs_reply(struct pt_regs *ctx)
{
	struct fuse_answer answer;
	__u64 memory;

	if (!daemon_thread())
		return 0;
	if (read_user(&memory, sizeof(memory), PT_REGS_PARM3(ctx)) &&
	    read_user(&answer, sizeof(answer), memory))
		return emit(answer.unique, 0, POINT_virtiofs_reply);
	emit_lost(current_cpu(), POINT_virtiofs_reply);
	return 0;
}
