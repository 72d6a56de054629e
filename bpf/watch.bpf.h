/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The watched devices: those that recorded threads use, and those below them.
 * A device is a disk (block events), a file system (journal events), or both.
 */
#ifndef IOSTRATA_WATCH_BPF_H
#define IOSTRATA_WATCH_BPF_H

#include "thread.bpf.h"

extern struct watch watched[WATCH_SETS * WATCH_WAYS];
/* Of which medium (gendisk's diskseq) --device has decided at each place; 0: of any. */
extern __u64 watched_media[WATCH_SETS * WATCH_WAYS];
extern struct follow follows[MAX_FOLLOWS];
extern __u64 named[1 << NAMED_BITS];         /* what a file was called when it was last told of */
extern __u32 watched_loops;                  /* whether one of them is a loop device */
extern struct follow kinds[1 << KINDS_BITS]; /* file systems that were met: which */
extern struct follow mounted[MAX_MOUNTED];   /* file systems and their disks; dev 0: no more */

static __always_inline __u32 watch_set(__u32 dev)
{
	return DEV_HASH(dev, WATCH_SETS_BITS) * WATCH_WAYS;
}

/* The device's enum watch_bits. */
static __always_inline __u32 watch_of(__u32 dev)
{
	__u32 first = watch_set(dev);

	if (watched[first].dev == dev)
		return watched[first].bits;
	if (watched[first + 1].dev == dev)
		return watched[first + 1].bits;
	if (watched[first + 2].dev == dev)
		return watched[first + 2].bits;
	if (watched[first + 3].dev == dev)
		return watched[first + 3].bits;
	return 0;
}

/* Watches a device and all that is known to lie below it (state.bpf.c).  Not hidden: so the
 * verifier looks at it once, and not once for each program that calls it. */
int watch_add(__u32 dev, __u32 bits);

/* The current thread lets a recorded one go on, or does itself what others may wait for: if it is a
 * kernel thread, it is recorded from now on, and where it serves, with those that let it go on
 * (state.bpf.c).  Not hidden, for the same reason. */
int thread_help(__u32 serves);

static __always_inline void thread_serve(void)
{
	if (current_is_kernel_thread())
		thread_help(1);
}

static __always_inline __u32 disk_dev(struct gendisk *disk)
{
	return (__u32)disk->major << 20 | disk->first_minor;
}

/* The same through a pointer that the verifier does not know the type of. */
static __always_inline __u32 disk_dev_of(struct gendisk *disk)
{
	return (__u32)PEEK(disk, major) << 20 | PEEK(disk, first_minor);
}

/* The whole disk that holds a block device. */
static __always_inline __u32 bdev_disk_dev(struct block_device *bdev)
{
	return disk_dev(bdev->bd_disk);
}

/* The address of the device that an inode, by its own, is the node of; 0: the kernel does not say. */
static __always_inline __u64 device_at_node(__u64 inode_key)
{
	if (!bpf_core_type_exists(struct bdev_inode))
		return 0;
	inode_key -= bpf_core_field_offset(struct bdev_inode, vfs_inode);
	return inode_key + bpf_core_field_offset(struct bdev_inode, bdev);
}

#endif
