/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What number events have for a file, that no other file of its superblock has. */
#ifndef IOSTRATA_INODE_BPF_H
#define IOSTRATA_INODE_BPF_H

#include "events.h"
#include "kernel.bpf.h"

/* From linux/magic.h. */
#define BTRFS_MAGIC 0x9123683e
#define OVERLAY_MAGIC 0x794c7630

/* A subvolume has no superblock of its own. */
static __always_inline bool may_have_subvolumes(__u32 dev)
{
	return !(dev >> 20);
}

/* Of a file of btrfs, what is above its number.  Its types may be a module's: PEEKed at. */
static __always_inline __u64 subvolume_bits(__u64 inode_key)
{
	struct btrfs_inode *inode;
	struct btrfs_root *root;

	if (!bpf_core_field_exists(struct btrfs_inode, root) ||
	    !bpf_core_field_exists(struct btrfs_root, root_key))
		return 0;
	inode = (void *)(inode_key - bpf_core_field_offset(struct btrfs_inode, vfs_inode));
	root = PEEK(inode, root);
	return PEEK(root, root_key.objectid) << SUBVOLUME_SHIFT;
}

static __always_inline __u64 inode_number(__u64 inode_key)
{
	struct inode *inode = (struct inode *)inode_key;
	__u64 number = PEEK(inode, i_ino);
	struct super_block *sb = PEEK(inode, i_sb);

	if (may_have_subvolumes(PEEK(sb, s_dev)) && PEEK(sb, s_magic) == BTRFS_MAGIC)
		number |= subvolume_bits(inode_key);
	return number;
}

#endif
