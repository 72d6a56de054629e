// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What is shared with a file instead of written to it (ioctl's FICLONE and FICLONERANGE): a write
 * of so many bytes.  Attached only where a file system can do it.  So that of btrfs's own calls, which
 * may commit its transaction (a snapshot's), is known who is in one. */
#include "beside.bpf.h"
#include "inode.bpf.h"
#include "syscall.bpf.h"

/* linux/fs.h */
#define FICLONE 0x40049409
#define FICLONERANGE 0x4020940d
/* linux/btrfs.h: those two were its own once. */
#define BTRFS_IOCTL_MAGIC 0x94
#define IOCTL_TYPE(command) ((command) >> 8 & 0xff)

struct file_clone_range {
	__s64 src_fd;
	__u64 src_offset;
	__u64 src_length; /* 0: to the end */
	__u64 dest_offset;
};

struct ioctl_enter_context {
	__u64 common;
	int nr;
	__u64 descriptor;
	__u64 command;
	__u64 argument;
};

struct ioctl_exit_context {
	__u64 common;
	int nr;
	__s64 result;
};

static __always_inline __u64 length_of(__u32 descriptor)
{
	struct file *file = (struct file *)file_of_descriptor(descriptor);
	struct inode *inode = file ? PEEK(file, f_inode) : NULL;

	return inode ? PEEK(inode, i_size) : 0;
}

/* First, so that it is attached first: no call is begun whose end is not seen.  scratch: the
 * upper half of how many bytes it shares. */
SEC("tp/syscalls/sys_exit_ioctl")
int syscall_exit_ioctl(struct ioctl_exit_context *ctx)
{
	struct thread *thread = thread_of(current_tid());

	if (thread && thread->enter_ns)
		call_end(thread, -1, ctx->result ? ctx->result : (__s64)thread->scratch[0]);
	else if (thread && unlikely(thread->call == CALL_BESIDE))
		beside_end();
	return 0;
}

static __noinline void clone_beside(__u32 descriptor)
{
	struct file *file = (struct file *)file_of_descriptor(descriptor);
	struct super_block *sb = file ? BPF_CORE_READ(file, f_inode, i_sb) : NULL;

	if (sb && PEEK(sb, s_magic) == BTRFS_MAGIC)
		beside_begin(PEEK(sb, s_dev));
}

SEC("tp/syscalls/sys_enter_ioctl")
int syscall_enter_ioctl(struct ioctl_enter_context *ctx)
{
	struct file_clone_range range = {};
	struct file_identity identity, source = {};
	struct thread *thread;

	if (IOCTL_TYPE(ctx->command) != BTRFS_IOCTL_MAGIC)
		return 0;
	if ((__u32)ctx->command == FICLONE)
		range.src_fd = ctx->argument;
	else if ((__u32)ctx->command != FICLONERANGE) {
		clone_beside(ctx->descriptor);
		return 0;
	} else if (bpf_probe_read_user(&range, sizeof(range), (void *)ctx->argument))
		return 0;
	thread = caller(ctx->descriptor, &identity);
	if (!thread) {
		clone_beside(ctx->descriptor);
		return 0;
	}
	if (!range.src_length)
		range.src_length = length_of(range.src_fd) - range.src_offset;
	/* XFS and btrfs make it durable where either file is to be (xfs_file_remap_range,
	 * btrfs_remap_file_range). */
	if (descriptor_identify(range.src_fd, &source))
		identity.open_flags |= source.open_flags & (O_SYNC | OPEN_OF_SYNC_INODE);
	thread->scratch[0] = range.src_length >> 32;
	call_is(thread, CALL_CLONE, range.dest_offset, range.src_length, 0);
	call_begin(thread, &identity);
	return 0;
}
