/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which file a descriptor of the current process stands for, and whether to record it. */
#ifndef IOSTRATA_FILE_BPF_H
#define IOSTRATA_FILE_BPF_H

#include "watch.bpf.h"

/* dev: of the file's superblock; of a block device's node, the device itself. */
struct file_identity {
	__u64 file_key;
	__u64 inode;
	__u32 dev;
	__u32 open_flags;
};

static __always_inline struct file *file_of_descriptor(__u32 descriptor)
{
	struct fdtable *table;
	struct file *file = NULL;
	struct file **files;

	if (bpf_helper_exists(get_current_task_btf)) {
		struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

		table = task->files->fdt;
		if (descriptor >= table->max_fds)
			return NULL;
		files = table->fd;
	} else {
		struct task_struct *task = (struct task_struct *)bpf_get_current_task();
		struct files_struct *current_files = PEEK(task, files);

		table = PEEK(current_files, fdt);
		if (descriptor >= PEEK(table, max_fds))
			return NULL;
		files = PEEK(table, fd);
	}
	bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	return file;
}

/* The first call on a file system makes it, and the disk below it, watched. */
static __always_inline void file_watch(struct super_block *sb, __u32 dev)
{
	struct block_device *bdev = LOOK(sb, s_bdev);
	struct gendisk *disk;

	watch_add(dev, WATCH_FS);
	if (!bdev)
		return;
	disk = LOOK(bdev, bd_disk);
	watch_add((__u32)LOOK(disk, major) << 20 | LOOK(disk, first_minor), WATCH_DISK);
}

/* False: no file to record (a pipe, socket or terminal, or not on a device asked for). */
static __always_inline bool file_identify(struct file *address, struct file_identity *identity)
{
	struct file *file = TYPED(struct file, address);
	struct inode *inode = LOOK(file, f_inode);
	__u32 format = LOOK(inode, i_mode) & S_IFMT;
	struct super_block *sb;
	__u32 bits;

	if (format == S_IFREG) {
		sb = LOOK(inode, i_sb);
		identity->dev = LOOK(sb, s_dev);
	} else if (format == S_IFBLK) {
		sb = NULL;
		identity->dev = LOOK(inode, i_rdev);
	} else {
		return false;
	}
	bits = watch_of(identity->dev);
	if (filter.device && !(bits & WATCH_ALLOWED))
		return false;
	if (sb && !(bits & WATCH_FS))
		file_watch(sb, identity->dev);
	identity->file_key = (__u64)address;
	identity->inode = LOOK(inode, i_ino);
	identity->open_flags = LOOK(file, f_flags);
	return true;
}

#endif
