/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which file a descriptor of the current process stands for, and whether to record it. */
#ifndef IOSTRATA_FILE_BPF_H
#define IOSTRATA_FILE_BPF_H

#include <asm/fcntl.h>

#include "watch.bpf.h"

/* dev: of the file's superblock; of a block device's node, the device itself. */
struct file_identity {
	__u64 file_key;
	__u64 inode;
	__u32 dev;
	__u32 open_flags;
	__u32 generation; /* 16 bits of it */
};

/* Whether a read of a file so opened is recorded. */
static __always_inline bool read_is_wanted(__u32 open_flags)
{
	return filter.reads == READS_EVERY || (filter.reads && open_flags & O_DIRECT);
}

/* The length of a part of a file, 0: to the end, or too long for an event to tell. */
static __always_inline __u32 part_bytes(__u64 length)
{
	return length > 0xffffffff ? 0 : length;
}

/* Tells a file's path, unless it was told of under this name; last: what the call before this
 * one returned to the caller, or 0. */
__u64 file_tell(const struct file_identity *identity, __u64 last) __hidden;

/* Tells a path in parts; 0: not all of it.  Not hidden: see watch_add. */
int file_name_tell(__u64 dentry_key, __u64 inode, __u32 dev, __u32 root_dev);

/* Makes a file system, and the disk below it, watched. */
int file_system_watch(__u64 sb_key);

int file_system_allowed(__u64 sb_key, __u32 dev);

/* False: no file to record (a pipe, socket or terminal, or not on a device asked for). */
bool file_identify(struct file *file, struct file_identity *identity) __hidden;

/* The same of a descriptor of the current process. */
bool descriptor_identify(__u32 descriptor, struct file_identity *identity) __hidden;

/* Its file as a number, 0: it is none.  Not hidden: see watch_add. */
__u64 file_of_descriptor(__u32 descriptor);

/* What syncfs(2) of it makes durable; false: not on a device asked for. */
bool file_system_identify(struct file_identity *identity) __hidden;

/* Where the next write() to it goes. */
long long file_position(__u64 file_key) __hidden;

long long file_size(__u64 file_key) __hidden;

#endif
