// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The system calls that write or make durable: the entry is stashed in the
 * thread's state, the exit emits one event.  Which calls a program is attached
 * to stands in record/probes.c.
 */
#include <linux/errno.h>
#include <linux/ptrace.h>

#include "beside.bpf.h"
#include "mapping.bpf.h"
#include "stand_in.bpf.h"
#include "syscall.bpf.h"

#include <bpf/bpf_tracing.h>

/* Set by the recorder. */
const volatile __u32 page_bytes = 4096;

/* The number is an int; the four bytes behind it are whatever was on the kernel's stack. */
struct enter_context {
	__u64 common;
	int nr;
	__u64 args[6];
};

struct exit_context {
	__u64 common;
	int nr;
	__s64 result;
};

/* Whether it makes durable, as far as that can be known; a file it is not to be recorded for: not. */
static __always_inline bool cut_is_durable(__u8 call, struct file_identity *identity, __u8 *rwf)
{
	struct pt_regs *regs;
	__u32 descriptor;

	/* Before Linux dd6e10fbd9fb, in v5.15, nothing tells the arguments any more. */
	if (!bpf_helper_exists(task_pt_regs))
		return !call_may_be_plain(call) && !filter.device;
	regs = (struct pt_regs *)bpf_task_pt_regs(current_task());
	if (call == CALL_SYNC || call == CALL_MSYNC)
		return !filter.device && (call == CALL_SYNC || PT_REGS_PARM3(regs) & MS_SYNC);
	descriptor = FIRST_ARGUMENT(regs);
	if (call == CALL_SPLICE || call == CALL_COPY_FILE_RANGE)
		descriptor = PT_REGS_PARM3(regs);
	if (call == CALL_SYNC_FILE_RANGE)
		*rwf = PT_REGS_PARM4_SYSCALL(regs);
	if (call == CALL_PWRITEV2)
		*rwf = SIXTH_ARGUMENT(regs);
	if (!descriptor_identify(descriptor, identity))
		return false;
	if (call == CALL_SYNCFS)
		return file_system_identify(identity);
	if (call == CALL_FALLOCATE) {
		*rwf = PT_REGS_PARM2(regs);
		return identity->open_flags & durable_flags(call);
	}
	return !call_may_be_plain(call) || *rwf || identity->open_flags & durable_flags(call);
}

/* Not static: for the verifier it is any of them from then on, and not each. */
__noinline int syscall_numbered(int number)
{
	return call_numbered(number);
}

/* A thread's first call that is met only now, as it returns: when it began, nobody looked.  Not
 * static: the verifier then looks at it once, with numbers that may be anything. */
__noinline int syscall_cut(int number, __s64 result)
{
	struct file_identity identity = {};
	__u8 call = syscall_numbered(number);
	struct thread *thread;
	union event *e;
	__u8 rwf = 0;

	if (!call || recording_over)
		return 0;
	/* All that those do comes here who are not chosen: of that, writes are too many to look at. */
	if (call_may_be_plain(call) && (filter.comm_count || filter.cgroup_count))
		return 0;
	thread = thread_wanted();
	if (!thread || thread->met)
		return 0;
	thread->met = 1;
	if (result < 0 || !cut_is_durable(call, &identity, &rwf))
		return 0;
	caller_announce(thread);
	e = emit_reserve(POINT_syscall_cut);
	if (!e)
		return 0;
	e->syscall_cut.enter_ns = 0;
	e->syscall_cut.inode = identity.inode;
	e->syscall_cut.offset_bytes = -1;
	e->syscall_cut.dev = identity.dev;
	e->syscall_cut.result = result;
	e->syscall_cut.size_bytes = 0;
	e->syscall_cut.tgid = thread->tgid;
	e->syscall_cut.open_flags = identity.open_flags;
	e->syscall_cut.call = call;
	e->syscall_cut.rwf = rwf;
	e->syscall_cut.generation = identity.generation;
	emit_submit(e, POINT_syscall_cut);
	return 0;
}

/* First, so that it is attached first: no call is begun whose end is not seen. */
PROGRAM("tp", syscall_exit, struct exit_context *ctx)
{
	struct thread *thread = thread_of(current_tid());

	if (thread && thread->enter_ns)
		call_end(thread, ctx->nr, ctx->result);
	else if (thread && unlikely(thread->call == CALL_BESIDE))
		beside_end();
	else if (filter.duties & DUTY_BIT(workload) &&
		 unlikely(thread ? !thread->met : !filter.tree))
		syscall_cut(ctx->nr, ctx->result);
	return 0;
}

/*
 * One program for each number of arguments: the kernel lets none attach that
 * reads more than its call has.  offset_bytes -1 and size_bytes 0 are not
 * known before the call has returned.
 */
PROGRAM("tp", syscall_enter_sync, struct enter_context *ctx)
{
	struct file_identity identity;
	struct thread *thread = caller(ctx->args[0], &identity);

	if (!thread)
		return 0;
	if (ctx->nr == __NR_syncfs) {
		if (!file_system_identify(&identity))
			return 0;
		call_is(thread, CALL_SYNCFS, -1, 0, 0);
	} else {
		call_is(thread, ctx->nr == __NR_fsync ? CALL_FSYNC : CALL_FDATASYNC, -1, 0, 0);
	}
	call_begin(thread, &identity);
	return 0;
}

/* Not static: the verifier then looks at it once, instead of once a turn of the loop. */
__noinline int syscall_watch_mounted(__u32 place)
{
	struct follow *follow = &mounted[place & (MAX_MOUNTED - 1)];

	return watch_add(follow->dev, follow->bits);
}

/* It waits for all file systems, used before or not. */
PROGRAM("tp", syscall_enter_sync_all, struct enter_context *ctx)
{
	struct file_identity identity = {};
	struct thread *thread = thread_admit();

	(void)ctx;
	if (!thread)
		return 0;
	if (filter.device) {
		not_seen(UNSEEN_SYNC, 0);
		return 0;
	}
	for (__u32 i = 0; i < MAX_MOUNTED && mounted[i].dev; i++)
		syscall_watch_mounted(i);
	call_is(thread, CALL_SYNC, -1, 0, 0);
	call_begin(thread, &identity);
	return 0;
}

PROGRAM("tp", syscall_enter_write, struct enter_context *ctx)
{
	struct file_identity identity;
	struct thread *thread = caller(ctx->args[0], &identity);

	if (!thread)
		return 0;
	if (ctx->nr == __NR_write)
		call_is(thread, CALL_WRITE, -1, ctx->args[2], 0);
	else
		call_is(thread, CALL_WRITEV, -1, 0, 0);
	call_begin(thread, &identity);
	return 0;
}

PROGRAM("tp", syscall_enter_pwrite, struct enter_context *ctx)
{
	__u64 second = ctx->args[1], third = ctx->args[2], fourth = ctx->args[3];
	struct file_identity identity;
	struct thread *thread = caller(ctx->args[0], &identity);

	if (!thread)
		return 0;
	/* Read above, always: the verifier takes no computed place in the context. */
	barrier_var(second);
	barrier_var(third);
	barrier_var(fourth);
	if (ctx->nr == __NR_pwrite64)
		call_is(thread, CALL_PWRITE64, fourth, third, 0);
	else if (ctx->nr == __NR_pwritev)
		call_is(thread, CALL_PWRITEV, fourth, 0, 0);
	else
		call_is(thread, CALL_SYNC_FILE_RANGE, second, part_bytes(third), fourth);
	call_begin(thread, &identity);
	return 0;
}

/* The arguments of calls of any number of them, as the context has them: what is not read through
 * that, nobody holds against how many a call has. */
struct arguments {
	__u64 of[6];
};

/* Calls that are made seldom: one program for all, as the kernel takes long to verify it.  Of
 * sendfile, splice and copy_file_range it is told what is written to a file.  What changes a file
 * and writes no data counts where the file's flags make it durable (which of fallocate's are, the
 * file system and the mode decide), and where a virtual machine's monitor makes room in an image;
 * where neither does, it may still hold the file's lock, that others wait for. */
PROGRAM("tp", syscall_enter_rare, struct enter_context *ctx)
{
	struct file_identity identity;
	struct arguments arguments = {};
	__u8 call = syscall_numbered(ctx->nr);
	struct thread *thread;
	__s64 offset_bytes = -1;
	__u32 size_bytes = 0, descriptor;
	__u8 rwf = 0;

	bpf_probe_read_kernel(&arguments, sizeof(arguments), &ctx->args);
	descriptor = arguments.of[0];
	if (call == CALL_SPLICE || call == CALL_COPY_FILE_RANGE)
		descriptor = arguments.of[2];
	thread = caller(descriptor, &identity);
	if (!thread)
		return 0;
	if (call == CALL_PWRITEV2) {
		offset_bytes = arguments.of[3];
		rwf = arguments.of[5];
	} else if (call == CALL_FALLOCATE) {
		offset_bytes = arguments.of[2];
		rwf = arguments.of[1];
		if (thread->kind == THREAD_VMM)
			size_bytes = part_bytes(arguments.of[3]);
	} else if (call == CALL_FTRUNCATE) {
		offset_bytes = arguments.of[1];
		if (offset_bytes > file_size(identity.file_key))
			rwf = RWF_OF_GROWING;
	} else if (call != CALL_SENDFILE && arguments.of[3]) {
		bpf_probe_read_user(&offset_bytes, sizeof(offset_bytes), (void *)arguments.of[3]);
	}
	call_is(thread, call, offset_bytes, size_bytes, rwf);
	call_begin(thread, &identity);
	return 0;
}

/* A program's address, which may have a tag (arm64's TBI, x86's LAM). */
#define UNTAGGED(address) ((address) & ~(0xffull << 56))

/* A mapping as it was found; file 0: none is mapped there. */
struct mapped {
	__u64 address;
	__u64 begin;
	__u64 end;
	__u64 page;
	__u64 flags;
	__u64 file;
};

#define OVERLAY_MAGIC 0x794c7630
#define VM_SHARED 8 /* from linux/mm.h */

/* An overlay has the file below mapped in its own's place, which alone its other calls tell of
 * (Linux def3ae83da02, in v6.7).  The flag of such a file is not the same bit on all kernels: it is
 * one if what lies behind it leads to an overlay. */
static __always_inline void mapped_overlay(struct file *file, struct file_identity *identity)
{
	struct backing_file *backing = (struct backing_file *)file;
	struct super_block *sb;
	struct dentry *dentry;
	struct inode *inode;

	if (!bpf_core_field_exists(backing->user_path))
		return;
	dentry = PEEK(backing, user_path.dentry);
	inode = PEEK(dentry, d_inode);
	sb = PEEK(inode, i_sb);
	if (PEEK(sb, s_magic) != OVERLAY_MAGIC || PEEK(dentry, d_sb) != sb)
		return;
	identity->inode = PEEK(inode, i_ino);
	identity->dev = PEEK(sb, s_dev);
	identity->generation = 0;
	/* Its name is another one. */
	identity->file_key = 0;
}

static __always_inline void mapping_read(struct vm_area_struct *vma, struct mapped *mapped)
{
	mapped->begin = PEEK(vma, vm_start);
	mapped->end = PEEK(vma, vm_end);
	mapped->page = PEEK(vma, vm_pgoff);
	mapped->flags = PEEK(vma, vm_flags);
	mapped->file = (__u64)PEEK(vma, vm_file);
}

static long mapping_found(struct task_struct *task, struct vm_area_struct *vma,
			  struct mapped *mapped)
{
	(void)task;
	mapping_read(vma, mapped);
	return 0;
}

/* False: it is not known what is there. */
static __always_inline bool mapped_find(struct mapped *mapped)
{
	struct task_struct *task = current_task();
	struct vm_area_struct *vma;

	if (bpf_find_vma(task, mapped->address, mapping_found, mapped, 0) != -EBUSY)
		return true;
	vma = mapping_at(task, mapped->address);
	if (vma)
		mapping_read(vma, mapped);
	return vma;
}

/* False: what is mapped there is no file's, or no file's to be recorded.  Of what is not shared
 * nothing is synced (mm/msync.c).  The mapping holds its file for as long as it is there. */
static __always_inline bool mapped_identify(const struct mapped *mapped,
					    struct file_identity *identity)
{
	struct file *file = (struct file *)mapped->file;

	if (!(mapped->flags & VM_SHARED) || !file || !file_identify(file, identity))
		return false;
	mapped_overlay(file, identity);
	return true;
}

/* Of no length, nothing is looked at. */
static __always_inline bool msync_is_wanted(const struct enter_context *ctx)
{
	return ctx->args[2] & MS_SYNC && ctx->args[1];
}

PROGRAM("tp", syscall_enter_msync, struct enter_context *ctx)
{
	struct mapped mapped = { .address = UNTAGGED(ctx->args[0]) };
	struct file_identity identity = {};
	__u64 length = ctx->args[1];
	struct thread *thread;
	__s64 offset = -1;
	bool known;

	thread = thread_admit();
	if (!thread || !msync_is_wanted(ctx))
		return 0;
	known = mapped_find(&mapped);
	length = (length + page_bytes - 1) / page_bytes * page_bytes;
	if (mapped.end && length > mapped.end - mapped.address) {
		length = mapped.end - mapped.address;
		not_seen(UNSEEN_MAPPINGS, 0);
	}
	if (!known && filter.device) {
		not_seen(UNSEEN_UNDECIDED, 0);
		return 0;
	}
	if (known) {
		if (!mapped_identify(&mapped, &identity))
			return 0;
		offset = mapped.page * page_bytes + (mapped.address - mapped.begin);
	}
	call_is(thread, CALL_MSYNC, offset, part_bytes(length), ctx->args[2]);
	call_begin(thread, &identity);
	return 0;
}

/* As above where BPF cannot look a mapping up (before Linux 7c7e3d31e785, in v5.17). */
PROGRAM("tp", syscall_enter_msync_blind, struct enter_context *ctx)
{
	struct file_identity identity = {};
	struct thread *thread;

	thread = thread_admit();
	if (!thread || !msync_is_wanted(ctx))
		return 0;
	if (filter.device) {
		not_seen(UNSEEN_UNDECIDED, 0);
		return 0;
	}
	call_is(thread, CALL_MSYNC, -1, ctx->args[1], ctx->args[2]);
	call_begin(thread, &identity);
	return 0;
}
