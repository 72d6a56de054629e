// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The system calls of 32-bit programs, of which the points of single calls do not tell
 * (arch_trace_is_compat_syscall).  The points here are hit by every call of every program,
 * so they are attached when such a program is there, or begins.
 */
#include "beside.bpf.h"
#include "compat.bpf.h"
#include "syscall.bpf.h"

#ifdef __TARGET_ARCH_arm64
#include "aarch32.bpf.h"
#else
#include "ia32.bpf.h"
#endif

/* Two registers as one number. */
static __always_inline __u64 wide(__u64 low, __u64 high)
{
	return (__u32)low | high << 32;
}

/* An offset where a pointer leads, -1: nowhere. */
static __always_inline __s64 offset_at(__u64 address)
{
	__s64 offset = -1;

	if (address)
		bpf_probe_read_user(&offset, sizeof(offset), (void *)address);
	return offset;
}

struct plan {
	__u8 call; /* 0: none that is recorded */
	__u8 rwf;
	__u32 descriptor; /* NO_FILE: it has none, or it is not looked up */
	__u32 size_bytes;
	__s64 offset_bytes;
};

#define NO_FILE 0xffffffff

/* Of those that read, beside plan_of(). */
static __always_inline struct plan plan_of_read(__u32 number, const struct pt_regs *regs)
{
	struct plan plan = { .descriptor = FIRST(regs), .offset_bytes = -1 };
	__u64 third = THIRD(regs), fourth = FOURTH(regs), fifth = FIFTH(regs), sixth = SIXTH(regs);

	switch (number) {
	case COMPAT_READ:
		plan.call = CALL_READ;
		plan.size_bytes = third;
		break;
	case COMPAT_READV:
		plan.call = CALL_READV;
		break;
	case COMPAT_PREAD64:
		plan.call = CALL_PREAD64;
		plan.size_bytes = third;
		plan.offset_bytes = EVEN ? wide(fifth, sixth) : wide(fourth, fifth);
		break;
	case COMPAT_PREADV:
		plan.call = CALL_PREADV;
		plan.offset_bytes = wide(fourth, fifth);
		break;
	case COMPAT_PREADV2:
		plan.call = CALL_PREADV2;
		plan.offset_bytes = wide(fourth, fifth);
		plan.rwf = sixth;
		break;
	}
	return plan;
}

static __always_inline struct plan plan_of(__u32 number, const struct pt_regs *regs)
{
	struct plan plan = { .descriptor = FIRST(regs), .offset_bytes = -1 };
	__u64 second = SECOND(regs), third = THIRD(regs), fourth = FOURTH(regs),
	      fifth = FIFTH(regs), sixth = SIXTH(regs);

	switch (number) {
	case COMPAT_WRITE:
		plan.call = CALL_WRITE;
		plan.size_bytes = third;
		break;
	case COMPAT_WRITEV:
		plan.call = CALL_WRITEV;
		break;
	case COMPAT_PWRITE64:
		plan.call = CALL_PWRITE64;
		plan.size_bytes = third;
		plan.offset_bytes = EVEN ? wide(fifth, sixth) : wide(fourth, fifth);
		break;
	case COMPAT_PWRITEV:
		plan.call = CALL_PWRITEV;
		plan.offset_bytes = wide(fourth, fifth);
		break;
	case COMPAT_PWRITEV2:
		plan.call = CALL_PWRITEV2;
		plan.offset_bytes = wide(fourth, fifth);
		plan.rwf = sixth;
		break;
	case COMPAT_FSYNC:
		plan.call = CALL_FSYNC;
		break;
	case COMPAT_FDATASYNC:
		plan.call = CALL_FDATASYNC;
		break;
	case COMPAT_SYNCFS:
		plan.call = CALL_SYNCFS;
		break;
	case COMPAT_SYNC_FILE_RANGE:
		plan.call = CALL_SYNC_FILE_RANGE;
		plan.offset_bytes = EVEN ? wide(third, fourth) : wide(second, third);
		plan.size_bytes = part_bytes(EVEN ? wide(fifth, sixth) : wide(fourth, fifth));
		plan.rwf = EVEN ? second : sixth;
		break;
	case COMPAT_FALLOCATE:
		plan.call = CALL_FALLOCATE;
		plan.offset_bytes = wide(third, fourth);
		plan.rwf = second;
		break;
	case COMPAT_SENDFILE:
	case COMPAT_SENDFILE64:
		plan.call = CALL_SENDFILE;
		break;
	case COMPAT_SPLICE:
		plan.call = CALL_SPLICE;
		plan.descriptor = third;
		plan.offset_bytes = offset_at((__u32)fourth);
		break;
	case COMPAT_COPY_FILE_RANGE:
		plan.call = CALL_COPY_FILE_RANGE;
		plan.descriptor = third;
		plan.offset_bytes = offset_at((__u32)fourth);
		break;
	case COMPAT_SYNC:
		plan.call = CALL_SYNC;
		plan.descriptor = NO_FILE;
		break;
	case COMPAT_MSYNC:
		plan.call = CALL_MSYNC;
		plan.descriptor = NO_FILE;
		plan.size_bytes = second;
		plan.rwf = third;
		break;
	}
	return plan;
}

/* Not inlined, and known to other files: so the verifier looks at it once, with arguments that
 * may be anything, instead of once for each call above. */
__noinline int compat_begin(__u32 call, __u32 rwf, __u32 descriptor, __u32 size_bytes,
			    __s64 offset_bytes)
{
	struct file_identity identity = {};
	struct thread *thread;

	if (descriptor != NO_FILE)
		thread = caller(descriptor, &identity);
	else
		thread = thread_admit();
	if (thread && descriptor == NO_FILE && filter.device) {
		not_seen(call == CALL_SYNC ? UNSEEN_SYNC : UNSEEN_UNDECIDED, 0);
		return 0;
	}
	if (!thread || (call == CALL_MSYNC && !(rwf & MS_SYNC)) ||
	    (call == CALL_FALLOCATE && !(identity.open_flags & (O_DSYNC | OPEN_OF_SYNC_INODE))))
		return 0;
	if (call >= CALL_READ && call <= CALL_PREADV2 && !read_is_wanted(identity.open_flags))
		return 0;
	if (call == CALL_SYNCFS && !file_system_identify(&identity))
		return 0;
	call_is(thread, call, offset_bytes, size_bytes, rwf);
	call_begin(thread, &identity);
	return 0;
}

SEC("tp_btf/sys_enter")
int compat_enter(__u64 *ctx)
{
	struct plan plan;

	if (!current_is_compat())
		return 0;
	plan = plan_of(ctx[1], ARGUMENT(struct pt_regs *, 0));
	if (filter.reads && !plan.call)
		plan = plan_of_read(ctx[1], ARGUMENT(struct pt_regs *, 0));
	if (plan.call)
		compat_begin(plan.call, plan.rwf, plan.descriptor, plan.size_bytes,
			     plan.offset_bytes);
	return 0;
}

SEC("tp_btf/sys_exit")
int compat_exit(__u64 *ctx)
{
	struct thread *thread;

	if (!current_is_compat())
		return 0;
	thread = thread_of(current_tid());
	if (thread && thread->enter_ns)
		call_end(thread, call_number(ARGUMENT(struct pt_regs *, 0)), (int)ctx[1]);
	else if (thread && unlikely(thread->call == CALL_BESIDE))
		beside_end();
	return 0;
}
