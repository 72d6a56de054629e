/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs look into: CO-RE finds the real
 * offsets at load time, so only names and types matter here.  A member that
 * some kernels lack is tested for with bpf_core_field_exists; one that has
 * another type on some has a flavour (___before).
 */
#ifndef IOSTRATA_KERNEL_BPF_H
#define IOSTRATA_KERNEL_BPF_H

#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

#define PF_IO_WORKER 0x00000010
#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000

#define TASK_INTERRUPTIBLE 0x00000001
#define TASK_UNINTERRUPTIBLE 0x00000002
#define TASK_STOPPED 0x00000004
#define TASK_TRACED 0x00000008
#define TASK_NOLOAD 0x00000400
#define TASK_FROZEN 0x00008000 /* since Linux f5d39b020809 (in v6.1) */
#define PF_FROZEN 0x00010000   /* until that */

#define S_IFMT 00170000
#define S_IFDIR 0040000
#define S_IFREG 0100000
#define S_IFBLK 0060000

#define REQ_OP_MASK 0xff
#define REQ_META (1u << 12)
enum request_operation {
	REQ_OP_READ = 0,
	REQ_OP_WRITE = 1,
	REQ_OP_FLUSH = 2,
	REQ_OP_DISCARD = 3,
	REQ_OP_ZONE_APPEND = 7,
	REQ_OP_WRITE_ZEROES = 9,
	REQ_OP_ZONE_APPEND_OLD = 13,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct block_device_operations {
	void *submit_bio; /* NULL: the disk has requests */
};

struct gendisk {
	int major;
	int first_minor;
	struct block_device_operations *fops;
	struct request_queue *queue;
	__u64 diskseq; /* another with each medium, since Linux cf179948554a (in v5.15) */
};

struct block_device {
	__u32 bd_dev;
	struct gendisk *bd_disk;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_flags;
	unsigned long s_magic;
	struct block_device *s_bdev;
	struct file_system_type *s_type;
	void *s_fs_info;
};

struct file_system_type {
	const char *name;
};

struct v9fs_session_info {
	unsigned int cache; /* 0: nothing is cached */
};

struct vfsmount {
	struct super_block *mnt_sb;
};

struct ovl_layer {
	struct vfsmount *mnt;
};

struct ovl_fs {
	struct ovl_layer *layers; /* the upper one first: where it writes */
};

struct inode {
	__u16 i_mode;
	unsigned int i_flags;
	__u32 i_rdev;
	unsigned long i_ino;
	__u32 i_generation;
	__s64 i_size;
	struct super_block *i_sb;
};

struct bdev_inode {
	struct block_device bdev;
	struct inode vfs_inode;
};

struct btrfs_key {
	__u64 objectid;
};

struct btrfs_root {
	struct btrfs_key root_key;
};

struct btrfs_inode {
	struct btrfs_root *root;
	struct inode vfs_inode;
};

struct qstr {
	__u64 hash_len; /* the length in the high half */
	const unsigned char *name;
};

struct dentry {
	struct inode *d_inode;
	struct dentry *d_parent; /* itself: the root */
	struct qstr d_name;
	struct super_block *d_sb;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	unsigned int f_flags;
	long long f_pos;
	struct inode *f_inode;
	struct address_space
		*f_mapping; /* of a block device's node, that of the device's own inode */
	void *private_data;
};

struct backing_file {
	struct path user_path;
};

struct kiocb {
	struct file *ki_filp;
	long long ki_pos;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
};

struct maple_tree {
	void *ma_root;
};

struct mm_struct {
	struct maple_tree mm_mt;
	struct kioctx_table *ioctx_table;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct address_space {
	struct inode *host;
};

struct page {
	unsigned long compound_head; /* of a page that is not its folio's first: that, and 1 */
	unsigned long compound_info; /* the same on v7.2, or a mask that leads there */
	struct address_space *mapping;
	unsigned long index; /* of a folio's first page: that of the folio, where there are such */
};

struct folio {
	unsigned long index; /* in pages, in its file */
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset; /* from the page's begin */
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct thread_info {
	unsigned long flags;
	__u32 status;        /* x86 only */
	__u64 preempt_count; /* arm64 only */
	unsigned int cpu;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
	__u64 nr_migrations;
};

struct sched_info {
	unsigned long long last_queued; /* when it was put into the queue that it waits in */
};

struct hrtimer {
	__s64 _softexpires;
};

struct sched_dl_entity {
	unsigned int dl_throttled : 1;
	struct hrtimer dl_timer;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	volatile long state; /* __state since Linux 2f064a59a11f (in v5.14) */
	unsigned int cpu;    /* thread_info.cpu since Linux bcf9033e5449 (in v5.16) */
	unsigned int flags;
	unsigned char on_rq; /* on v7.2; before, of an int the lowest byte */
	int pid;
	int tgid;
	struct css_set *cgroups;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct files_struct *files;
	struct io_uring_task *io_uring;
	struct mm_struct *mm;
	struct bio_list *bio_list; /* two of them */
	unsigned long nvcsw;       /* how often it left the CPU, of its own will */
	unsigned long nivcsw;      /* and not */
	__u64 start_time;
	void *stack; /* the kernel's */
	char comm[16];
	int prio; /* of SCHED_DEADLINE below 0, of threads that quotas are for MAX_RT_PRIO and more */
	struct sched_entity se;
	struct sched_dl_entity dl;
	struct sched_info sched_info;
	struct task_group *sched_task_group;
	bool throttled;          /* since Linux e1fad12dcb66 (in v6.18) */
	unsigned int frozen : 1; /* by version 2 of control groups */
	void *worker_private;    /* since Linux e32cf5dfbe22 (in v5.17) */
	void *pf_io_worker;      /* since Linux 3bfe6106693b (in v5.12); kernel threads before */
	void *set_child_tid;     /* a kernel thread's struct kthread */
};

struct bio;

struct bio_list {
	struct bio *head;
};

struct bvec_iter {
	unsigned long long bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	struct gendisk *bi_disk; /* bi_bdev since Linux 309dca309fc3 (in v5.12) */
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
	unsigned short bi_vcnt;
	struct bio_vec *bi_io_vec;
};

struct request_queue {
	struct gendisk *disk;
	int mq_freeze_depth;
};

struct request {
	struct request_queue *q;
	struct gendisk *rq_disk; /* q->disk since Linux f3fa33acca9f (in v5.17) */
	unsigned int cmd_flags;
	unsigned int rq_flags;
	unsigned int __data_len;
	unsigned long long __sector;
	struct bio *bio;
};

struct ext4_inode_info {
	struct inode vfs_inode;
	unsigned int i_sync_tid;
	unsigned int i_datasync_tid;
};

struct journal_s {
	struct block_device *j_fs_dev;
};

struct transaction_s {
	unsigned int t_tid;
	unsigned int t_synchronous_commit : 1;
};

struct pt_regs___entry {
	unsigned long orig_ax; /* x86 */
	unsigned long ax;
	int syscallno; /* arm64 */
	__u64 orig_x0;
	__u64 regs[31];
};

#pragma clang attribute pop

/* Of a tp_btf program: its n-th argument, as the type that the kernel says it has.
 * A point of a module may pass NULL for all that the verifier knows (since Linux
 * 838a10bd2ebf, in v6.14 and v6.12.5): its programs compare each pointer first. */
#define ARGUMENT(type, n) ((type)ctx[n])

/* The same as a number, to be counted with: the verifier lets no pointer be. */
static __always_inline __u64 argument_key(const __u64 *ctx, __u32 n)
{
	__u64 key = 0;

	bpf_probe_read_kernel(&key, sizeof(key), ctx + n);
	return key;
}

/* Any pointer as a number. */
static __always_inline __u64 pointer_key(const void *pointer)
{
	__u64 key = 0;

	bpf_probe_read_kernel(&key, sizeof(key), &pointer);
	return key;
}

/* Reads one member through a pointer that the verifier does not know the type of. */
#define PEEK(pointer, member)                                             \
	({                                                                \
		__typeof__((pointer)->member) value = 0;                  \
		bpf_core_read(&value, sizeof(value), &(pointer)->member); \
		value;                                                    \
	})

/* Of arm64, the register of a call's first argument has its result when it returns. */
#ifdef __TARGET_ARCH_arm64
#define FIRST_ARGUMENT(regs) PT_REGS_PARM1_CORE_SYSCALL(regs)
#define SIXTH_ARGUMENT(regs) (((const struct user_pt_regs *)(regs))->regs[5])
#else
#define FIRST_ARGUMENT(regs) PT_REGS_PARM1_SYSCALL(regs)
#define SIXTH_ARGUMENT(regs) ((regs)->r9)
#endif

/* The number of the call by which a task came into the kernel, of its registers as they were then;
 * negative: by none (idtentry_body of arch/x86/entry/entry_64.S, kernel_entry of
 * arch/arm64/kernel/entry.S). */
static __always_inline int call_number(const void *regs)
{
#ifdef __TARGET_ARCH_arm64
	return ((const struct pt_regs___entry *)regs)->syscallno;
#else
	return ((const struct pt_regs___entry *)regs)->orig_ax;
#endif
}

/* Whether that call is over: its result is where -ENOSYS was when it began (PUSH_AND_CLEAR_REGS of
 * entry_SYSCALL_64), of arm64 its first argument.  False also where it is just that. */
static __always_inline bool call_is_over(const void *regs)
{
	const struct pt_regs___entry *entry = regs;

#ifdef __TARGET_ARCH_arm64
	return entry->regs[0] != entry->orig_x0;
#else
	return entry->ax != (unsigned long)-ENOSYS;
#endif
}

/* Whether this kernel's BPF has a helper: bpf_helper_exists(get_current_task_btf). */
#define bpf_helper_exists(name) bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_##name)

/* A helper whose answer does not change while a program runs: said so, the compiler asks once for all
 * that it inlines.  A call takes 5 ns of the some 100 that a hit does. */
#define UNCHANGING(type, name, helper) \
	static type (*const name)(void) __attribute__((const)) = (void *)BPF_FUNC_##helper

/* Where BPF has no such helper (before Linux 3ca1032ab7ab, in v5.11), the recorder puts the one in its
 * place that gives a mere address (record/older.c). */
UNCHANGING(struct task_struct *, current_task, get_current_task_btf);
UNCHANGING(__u64, current_task_key, get_current_task);
UNCHANGING(__u32, current_cpu, get_smp_processor_id);

/* Reads one member of the current task: a plain load where it has a type. */
#define CURRENT(member)                                      \
	({                                                   \
		struct task_struct *task = current_task();   \
		__typeof__(task->member) value = 0;          \
		if (bpf_helper_exists(get_current_task_btf)) \
			value = task->member;                \
		else                                         \
			value = PEEK(task, member);          \
		value;                                       \
	})

static __always_inline __u32 current_tid(void)
{
	return CURRENT(pid);
}

static __always_inline __u32 current_tgid(void)
{
	return CURRENT(tgid);
}

/* Both, the process in the high half. */
static __always_inline __u64 current_ids(void)
{
	return (__u64)current_tgid() << 32 | current_tid();
}

static __always_inline bool current_is_kernel_thread(void)
{
	return CURRENT(flags) & PF_KTHREAD;
}

/* Whether it is a worker of the kernel's pools. */
static __always_inline bool current_is_pooled(void)
{
	return CURRENT(flags) & PF_WQ_WORKER;
}

#endif
