// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The system calls that read files, as those that write (syscall.bpf.c): only where reads are to
 * be recorded, or else none of these programs is there.
 */
#include <asm/unistd.h>

#include "stand_in.bpf.h"
#include "syscall.bpf.h"

struct read_enter_context {
	__u64 common;
	int nr;
	__u64 args[6];
};

struct read_exit_context {
	__u64 common;
	int nr;
	__s64 result;
};

/* The current thread, if its reads of the descriptor's file are recorded; else NULL. */
static __always_inline struct thread *reader(__u32 descriptor, struct file_identity *identity)
{
	struct thread *thread = caller(descriptor, identity);

	if (thread && !read_is_wanted(identity->open_flags))
		return NULL;
	return thread;
}

/* One program for each number of arguments, as in syscall.bpf.c. */
PROGRAM("tp", read_enter, struct read_enter_context *ctx)
{
	__u64 third = ctx->args[2];
	struct file_identity identity;
	struct thread *thread = reader(ctx->args[0], &identity);

	barrier_var(third);
	if (!thread)
		return 0;
	if (ctx->nr == __NR_read)
		call_is(thread, CALL_READ, -1, part_bytes(third), 0);
	else
		call_is(thread, CALL_READV, -1, 0, 0);
	call_begin(thread, &identity);
	return 0;
}

PROGRAM("tp", read_enter_at, struct read_enter_context *ctx)
{
	__u64 third = ctx->args[2], fourth = ctx->args[3];
	struct file_identity identity;
	struct thread *thread = reader(ctx->args[0], &identity);

	barrier_var(third);
	barrier_var(fourth);
	if (!thread)
		return 0;
	if (ctx->nr == __NR_pread64)
		call_is(thread, CALL_PREAD64, fourth, part_bytes(third), 0);
	else
		call_is(thread, CALL_PREADV, fourth, 0, 0);
	call_begin(thread, &identity);
	return 0;
}

PROGRAM("tp", read_enter_with_flags, struct read_enter_context *ctx)
{
	struct file_identity identity;
	struct thread *thread = reader(ctx->args[0], &identity);

	if (!thread)
		return 0;
	call_is(thread, CALL_PREADV2, ctx->args[3], 0, ctx->args[5]);
	call_begin(thread, &identity);
	return 0;
}

PROGRAM("tp", read_exit, struct read_exit_context *ctx)
{
	struct thread *thread = thread_of(current_tid());

	if (thread && thread->enter_ns)
		call_end(thread, ctx->nr, ctx->result);
	return 0;
}
