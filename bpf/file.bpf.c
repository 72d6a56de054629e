// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Looks into files, for all layers.  Their own object, because libbpf 1.1 links
 * a kernel function into no more than one.
 */
#include "file.bpf.h"
#include "inode.bpf.h"

/* Whether the verifier can be told what an address points to, which makes reading there
 * a plain load (since Linux a35b9af4ec2c, in v6.2); set by the recorder. */
extern const volatile bool has_rdonly_cast;
extern const volatile struct type_ids type_ids;
extern void *bpf_rdonly_cast(const void *object, __u32 type_id) __ksym __weak;

/* An address, to be read with LOOK: the type is one of struct type_ids. */
#define TYPED(type, address)                                                                       \
	((struct type *)(has_rdonly_cast ? bpf_rdonly_cast((const void *)(address), type_ids.type) \
					 : (void *)(address)))

/* Reads one member through a pointer from TYPED, or from a LOOK at a pointer. */
#define LOOK(pointer, member)                                                     \
	({                                                                        \
		__typeof__((pointer)->member) value = 0;                          \
		if (has_rdonly_cast)                                              \
			value = (pointer)->member;                                \
		else                                                              \
			bpf_core_read(&value, sizeof(value), &(pointer)->member); \
		value;                                                            \
	})

/* A member that is a pointer, as a number: one from LOOK is none to be counted with, so that
 * the place is taken for that of another type's number. */
#define LOOK_KEY(pointer, member)                                                              \
	({                                                                                     \
		__u64 key = 0;                                                                 \
		if (has_rdonly_cast)                                                           \
			key = TYPED(inode, (const void *)&(pointer)->member -                  \
						   bpf_core_field_offset(struct inode, i_ino)) \
				      ->i_ino;                                                 \
		else                                                                           \
			bpf_core_read(&key, sizeof(void *), &(pointer)->member);               \
		key;                                                                           \
	})

#define NAME_PRIME 0x9e3779b97f4a7c15ull

#define V9FS_MAGIC 0x01021997

/* What --device decided of a device: its enum watch_bits; 0: nothing, or of another medium than it
 * has by now (another file of a loop device, another disk of its number).  Not hidden: see
 * watch_add. */
int watch_decision(__u32 dev, __u64 medium)
{
	__u32 first = watch_set(dev);

	for (__u32 way = 0; way < WATCH_WAYS; way++) {
		__u32 place = (first + way) & (WATCH_SETS * WATCH_WAYS - 1);
		__u64 decided;

		if (watched[place].dev != dev)
			continue;
		decided = *(volatile __u64 *)&watched_media[place];
		if (decided && medium && decided != medium)
			return 0;
		return *(volatile __u32 *)&watched[place].bits & (WATCH_ALLOWED | WATCH_OTHER);
	}
	return 0;
}

/* The number of the medium that a disk has now, 0: the kernel has none. */
static __always_inline __u64 medium_of(struct block_device *bdev)
{
	struct gendisk *disk;

	if (!bdev || !bpf_core_field_exists(((struct gendisk *)0)->diskseq))
		return 0;
	disk = LOOK(bdev, bd_disk);
	return disk ? LOOK(disk, diskseq) : 0;
}

/* The whole disk that a device is or is on. */
static __always_inline __u32 disk_dev_at(struct block_device *bdev)
{
	struct gendisk *disk = LOOK(bdev, bd_disk);

	return (__u32)LOOK(disk, major) << 20 | LOOK(disk, first_minor);
}

/* The device that a file is the node of, NULL: the kernel does not say. */
static __always_inline struct block_device *device_of_node(struct file *file)
{
	struct address_space *mapping = LOOK(file, f_mapping);
	__u64 key = device_at_node(LOOK_KEY(mapping, host));

	return key ? TYPED(block_device, key) : NULL;
}

/* The disk is watched before anything is queued there: that may be left to a worker of the kernel's,
 * which hands on what a limit held back. */
static __always_inline void watch_node(struct file *file, __u32 dev)
{
	struct block_device *bdev;

	if (likely(watch_of(dev) & WATCH_DISK))
		return;
	bdev = device_of_node(file);
	if (!bdev)
		return;
	dev = disk_dev_at(bdev);
	if (!(watch_of(dev) & WATCH_DISK))
		watch_add(dev, WATCH_DISK);
}

static __always_inline void watch_file_system(struct super_block *sb)
{
	struct block_device *bdev = LOOK(sb, s_bdev);

	watch_add(LOOK(sb, s_dev), WATCH_FS);
	if (bdev)
		watch_add(disk_dev_at(bdev), WATCH_DISK);
}

int file_system_watch(__u64 sb_key)
{
	watch_file_system(TYPED(super_block, sb_key));
	return 0;
}

/* Where an overlay writes to, 0: not known (older kernels have no list of all layers).  Its types
 * may be a module's: PEEKed at. */
static __always_inline __u64 overlay_upper(struct super_block *sb)
{
	struct ovl_fs *overlay = PEEK(sb, s_fs_info);
	struct ovl_layer *upper;
	struct vfsmount *mount;

	if (!bpf_core_field_exists(overlay->layers))
		return 0;
	upper = PEEK(overlay, layers);
	mount = PEEK(upper, mnt);
	return mount ? (__u64)PEEK(mount, mnt_sb) : 0;
}

/* Tells the kind of a file system that its number does not tell, as they are used again; upper_dev:
 * where an overlay writes to, else 0.  Not hidden: see watch_add. */
int file_system_tell(__u64 sb_key, __u32 dev, __u32 upper_dev)
{
	struct super_block *sb = (struct super_block *)sb_key;
	struct file_system_type *type = PEEK(sb, s_type);
	struct block_device *bdev = PEEK(sb, s_bdev);
	union event *e = emit_reserve(POINT_file_system);

	if (!e)
		return 0;
	e->file_system.dev = dev;
	e->file_system.below_dev = bdev ? PEEK(bdev, bd_dev) : upper_dev;
	bpf_probe_read_kernel_str(e->file_system.type, sizeof(e->file_system.type),
				  PEEK(type, name));
	emit_submit(e, POINT_file_system);
	return 1;
}

/* What an overlay writes to, of which nobody may ever hear but by it: what it makes durable at once
 * (syncfs) tells of no file there first.  Its number, 0: not known. */
static __always_inline __u32 overlay_look_below(__u64 sb_key)
{
	__u64 upper_key = overlay_upper((struct super_block *)sb_key);
	struct super_block *upper = TYPED(super_block, upper_key);
	__u32 upper_dev;

	if (!upper_key)
		return 0;
	upper_dev = LOOK(upper, s_dev);
	file_system_tell(upper_key, upper_dev, 0);
	if (!filter.device)
		watch_file_system(upper);
	return upper_dev;
}

/* What was decided of a number, of a file system that has gone. */
static __noinline int watch_forget(__u32 dev)
{
	__u32 first = watch_set(dev);

	for (__u32 way = 0; way < WATCH_WAYS; way++) {
		struct watch *watch = &watched[(first + way) & (WATCH_SETS * WATCH_WAYS - 1)];

		if (watch->dev == dev)
			watch->bits &= ~(WATCH_ALLOWED | WATCH_OTHER | WATCH_FS);
	}
	return 0;
}

/* Another is met than was there, or the first; bits: which.  Where nobody hears of it, it is met
 * again.  Not hidden: see watch_add. */
int file_system_met(__u64 sb_key, __u32 dev, __u32 bits)
{
	struct follow *kind = &kinds[DEV_HASH(dev, KINDS_BITS)];
	struct super_block *sb = TYPED(super_block, sb_key);
	__u32 upper_dev = 0;

	/* A disk's number is its own. */
	if (kind->dev == dev && !(dev >> 20))
		watch_forget(dev);
	if (LOOK(sb, s_magic) == OVERLAY_MAGIC)
		upper_dev = overlay_look_below(sb_key);
	if (file_system_tell(sb_key, dev, upper_dev)) {
		kind->bits = bits;
		kind->dev = dev;
	}
	return 0;
}

/* Whether it is another than was met there, or none was. */
static __always_inline bool file_system_meet(struct super_block *sb, __u32 dev, __u64 sb_key)
{
	const struct follow *kind = &kinds[DEV_HASH(dev, KINDS_BITS)];
	/* One whose superblock lies where another's was differs by what that led to. */
	__u64 which = (sb_key ^ LOOK_KEY(sb, s_fs_info) ^ LOOK(sb, s_magic)) * NAME_PRIME;
	__u32 bits = which >> 32;

	if (likely(kind->dev == dev && kind->bits == bits))
		return false;
	file_system_met(sb_key, dev, bits);
	return true;
}

/* From linux/magic.h: what lies on no disk of this machine, or writes to one by a process's calls. */
static __always_inline bool lies_on_no_disk(__u64 magic)
{
	switch (magic) {
	case 0x01021994: /* tmpfs */
	case 0x858458f6: /* ramfs */
	case 0x00009fa0: /* proc */
	case 0x62656572: /* sysfs */
	case 0x64626720: /* debugfs */
	case 0x74726163: /* tracefs */
	case 0x0027e0eb: /* cgroup */
	case 0x63677270: /* cgroup, version 2 */
	case 0x958458f6: /* hugetlbfs */
	case 0x0bad1dea: /* pipes and the like */
	case 0x00006969: /* nfs */
	case 0xff534d42: /* cifs */
	case 0xfe534d42: /* SMB 2 */
	case 0x00c36400: /* ceph */
	case V9FS_MAGIC:
	case 0x65735546: /* FUSE, virtiofs */
		return true;
	}
	return false;
}

/* Whether a file system that the recorder did not find when it began, or that has no device of
 * its own, lies on one that was asked for; sb_key 0: a device's node.  Not hidden: see watch_add. */
int file_system_allowed(__u64 sb_key, __u32 dev)
{
	struct super_block *sb = (struct super_block *)sb_key;
	__u32 upper_dev, upper_bits, bits = WATCH_OTHER;
	struct super_block *upper;
	__u64 upper_key;
	__u64 magic = sb_key ? PEEK(sb, s_magic) : 0;

	if (lies_on_no_disk(magic)) {
		watch_add(dev, WATCH_OTHER);
		return 0;
	}
	if (magic != OVERLAY_MAGIC || !bpf_core_field_exists(((struct ovl_fs *)0)->layers)) {
		not_seen(UNSEEN_UNDECIDED, dev);
		return 0;
	}
	upper_key = overlay_upper(sb);
	upper = TYPED(super_block, upper_key);
	upper_dev = upper_key ? LOOK(upper, s_dev) : 0;
	upper_bits = upper_key ? watch_decision(upper_dev, medium_of(LOOK(upper, s_bdev))) : 0;
	if (upper_bits & WATCH_ALLOWED)
		bits = WATCH_ALLOWED;
	else if (upper_key && !(upper_bits & WATCH_OTHER)) {
		not_seen(UNSEEN_UNDECIDED, dev);
		return 0;
	}
	watch_add(dev, bits);
	return bits == WATCH_ALLOWED;
}

/* IS_SYNC() in linux/fs.h. */
#define SB_SYNCHRONOUS 0x10
#define S_SYNC 1

/* Of a random number, as ext4, XFS and tmpfs give one to each file. */
static __always_inline __u32 generation_of(struct inode *inode)
{
	__u32 generation = LOOK(inode, i_generation);

	return (generation ^ generation >> 16) & 0xffff;
}

/* Of a 9p mount that caches nothing a write is sent and no more, though Linux had it synchronous by
 * itself before 740b8bf87322 (in v6.4): its server may have that in its own cache. */
static __always_inline bool makes_durable(__u64 sb_key)
{
	struct super_block *sb = (struct super_block *)sb_key;
	struct v9fs_session_info *session;

	if (PEEK(sb, s_magic) != V9FS_MAGIC)
		return true;
	if (!bpf_core_field_exists(struct v9fs_session_info, cache))
		return false;
	session = PEEK(sb, s_fs_info);
	return PEEK(session, cache);
}

static __always_inline bool is_allowed(struct file *file, struct inode *inode,
				       struct super_block *sb, __u32 dev)
{
	__u64 medium = medium_of(sb ? LOOK(sb, s_bdev) : device_of_node(file));
	__u32 decision = watch_decision(dev, medium);

	if (decision)
		return decision & WATCH_ALLOWED;
	return file_system_allowed(sb ? LOOK_KEY(inode, i_sb) : 0, dev);
}

static __always_inline bool identify(struct file *file, struct file_identity *identity)
{
	struct inode *inode = LOOK(file, f_inode);
	__u32 format = LOOK(inode, i_mode) & S_IFMT;
	struct super_block *sb;
	bool is_met = false;

	if (format == S_IFREG || format == S_IFDIR) {
		sb = LOOK(inode, i_sb);
		identity->dev = LOOK(sb, s_dev);
	} else if (format == S_IFBLK) {
		sb = NULL;
		identity->dev = LOOK(inode, i_rdev);
	} else {
		return false;
	}
	if (sb)
		is_met = file_system_meet(sb, identity->dev, LOOK_KEY(inode, i_sb));
	if (unlikely(filter.device) && !is_allowed(file, inode, sb, identity->dev))
		return false;
	if (sb && unlikely(is_met || !(watch_of(identity->dev) & WATCH_FS)))
		file_system_watch(LOOK_KEY(inode, i_sb));
	if (!sb)
		watch_node(file, identity->dev);
	identity->file_key = (__u64)file;
	/* Whatever node it was opened by, a device has one inode, of this number (bdev_add). */
	identity->inode = sb ? LOOK(inode, i_ino) : identity->dev;
	if (sb && may_have_subvolumes(identity->dev) && LOOK(sb, s_magic) == BTRFS_MAGIC)
		identity->inode |= subvolume_bits(LOOK_KEY(file, f_inode));
	identity->open_flags = LOOK(file, f_flags);
	identity->generation = sb ? generation_of(inode) : 0;
	if (!sb)
		identity->open_flags |= OPEN_OF_DEVICE;
	if (format == S_IFREG && sb &&
	    (LOOK(inode, i_flags) & S_SYNC || LOOK(sb, s_flags) & SB_SYNCHRONOUS) &&
	    makes_durable(LOOK_KEY(inode, i_sb)))
		identity->open_flags |= OPEN_OF_SYNC_INODE;
	return true;
}

/* Of a block device's node it is the file system that the node is on which syncfs(2) asks for. */
bool file_system_identify(struct file_identity *identity)
{
	struct file *file = TYPED(file, identity->file_key);
	struct inode *inode = LOOK(file, f_inode);
	struct super_block *sb = LOOK(inode, i_sb);

	if (!(identity->open_flags & OPEN_OF_DEVICE))
		return true;
	identity->dev = LOOK(sb, s_dev);
	file_system_watch(LOOK_KEY(inode, i_sb));
	identity->inode = LOOK(inode, i_ino);
	identity->generation = generation_of(inode);
	identity->open_flags &= ~OPEN_OF_DEVICE;
	return !filter.device || file_system_allowed(LOOK_KEY(inode, i_sb), identity->dev);
}

bool file_identify(struct file *file, struct file_identity *identity)
{
	return identify(TYPED(file, file), identity);
}

/* Where the current process keeps the descriptor's file, NULL: beyond its table.  What
 * bpf_rdonly_cast says is a task the verifier does not trust: what a trusted one's pointers lead to it
 * looks up among the names of all types (btf_nested_type_is_trusted), for a millisecond each. */
static __always_inline struct file **file_place(__u32 descriptor)
{
	struct task_struct *task = TYPED(task_struct, current_task());
	struct files_struct *current_files;
	struct fdtable *table;

	if (bpf_helper_exists(get_current_task_btf)) {
		table = task->files->fdt;
		return descriptor < table->max_fds ? table->fd + descriptor : NULL;
	}
	current_files = PEEK(task, files);
	table = PEEK(current_files, fdt);
	return descriptor < PEEK(table, max_fds) ? PEEK(table, fd) + descriptor : NULL;
}

/* The file at a place of a descriptor table.  A plain load needs a type that holds a
 * pointer to a file: a kiocb does. */
static __always_inline struct file *file_at(struct file **place)
{
	struct kiocb *control;
	struct file *file = NULL;

	if (!has_rdonly_cast) {
		bpf_probe_read_kernel(&file, sizeof(file), place);
		return file;
	}
	control = TYPED(kiocb, (void *)place - bpf_core_field_offset(struct kiocb, ki_filp));
	return control->ki_filp;
}

__u64 file_of_descriptor(__u32 descriptor)
{
	struct file **place = file_place(descriptor);
	__u64 key = 0;

	if (place)
		bpf_probe_read_kernel(&key, sizeof(key), place);
	return key;
}

bool descriptor_identify(__u32 descriptor, struct file_identity *identity)
{
	struct file **place = file_place(descriptor);
	struct file *file = place ? file_at(place) : NULL;

	return file && identify(file, identity);
}

/* What a file is called, as a number: another name, another number.  The kernel's hash of a
 * name depends on its directory; a file that takes a deleted one's inode has its own entry. */
static __always_inline __u64 name_tag(const struct file_identity *identity, __u64 dentry_key,
				      struct dentry *dentry)
{
	__u64 tag = (dentry_key ^ LOOK_KEY(dentry, d_parent)) * NAME_PRIME;

	tag = (tag ^ LOOK(dentry, d_name.hash_len)) * NAME_PRIME;
	tag = (tag ^ identity->inode) * NAME_PRIME;
	return ((tag ^ identity->dev) * NAME_PRIME) | 1;
}

__u64 file_tell(const struct file_identity *identity, __u64 last)
{
	__u64 place = (identity->inode ^ (__u64)identity->dev << 32) * NAME_PRIME;
	struct file *file = (struct file *)identity->file_key;
	struct dentry *dentry;
	struct super_block *sb;
	__u64 *told, tag, key;

	if (!filter.names || !file)
		return 0;
	key = LOOK_KEY(file, f_path.dentry);
	dentry = TYPED(dentry, key);
	tag = name_tag(identity, key, dentry);
	if (likely(tag == last))
		return tag;
	told = &named[place >> (64 - NAMED_BITS)];
	if (*told == tag)
		return tag;
	*told = tag;
	sb = LOOK(dentry, d_sb);
	if (!file_name_tell(key, identity->inode, identity->dev, LOOK(sb, s_dev)))
		*told = 0;
	return *told;
}

long long file_position(__u64 file_key)
{
	struct file *file = TYPED(file, file_key);

	return LOOK(file, f_pos);
}

long long file_size(__u64 file_key)
{
	struct file *file = TYPED(file, file_key);
	struct inode *inode = LOOK(file, f_inode);

	return LOOK(inode, i_size);
}
