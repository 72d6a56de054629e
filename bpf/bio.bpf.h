/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is told of a bio: where it goes, for what, and which part of a file it reads. */
#ifndef IOSTRATA_BIO_BPF_H
#define IOSTRATA_BIO_BPF_H

#include <linux/major.h>

#include "block.bpf.h"
#include "data.bpf.h"
#include "inode.bpf.h"
#include "throttle.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct loop_cmd {
	struct kiocb iocb;
};

#pragma clang attribute pop

extern const volatile __u32 page_bytes;
extern __u64 splits_met; /* how often a bio that is recorded was split */

static __always_inline __u32 bio_dev(struct bio *bio)
{
	if (bpf_core_field_exists(bio->bi_bdev))
		return bdev_disk_dev(bio->bi_bdev);
	return disk_dev(bio->bi_disk);
}

/* The same, before anything is asked of it: where the verifier comes by on many ways, it looks up on
 * each what each pointer of a trusted argument leads to, among the names of all types
 * (btf_nested_type_is_trusted): a millisecond. */
static __always_inline __u32 bio_dev_at_once(struct bio *bio)
{
	__u32 dev = bio_dev(bio);

	barrier_var(dev);
	return dev;
}

/* A loop device's request carries the control block of its I/O on the file below, and a
 * file's direct I/O is what its bios point to; other bios point to anything else.  0: it is for no
 * loop device's request. */
static __always_inline __u64 request_above(struct bio *bio)
{
	struct request *above;
	struct kiocb *iocb;

	if (!bpf_core_type_exists(struct loop_cmd) || !bpf_core_type_exists(struct iomap_dio))
		return 0;
	iocb = PEEK((struct iomap_dio *)bio->bi_private, iocb);
	if (!iocb)
		return 0;
	above = (void *)iocb - bpf_core_field_offset(struct loop_cmd, iocb) -
		bpf_core_type_size(struct request);
	return request_dev_of(above) >> 20 == LOOP_MAJOR ? (__u64)above : 0;
}

/* What direct I/O to a disk itself is for, if the bio is part of that: nothing else before a bio leads
 * to a device's node. */
static __always_inline struct kiocb *kiocb_around(struct bio *bio)
{
	struct blkdev_dio *dio = (void *)bio - bpf_core_field_offset(struct blkdev_dio, bio);
	struct kiocb *iocb;
	struct inode *inode;

	if (!bpf_core_type_exists(struct blkdev_dio))
		return NULL;
	iocb = PEEK(dio, iocb);
	inode = iocb ? BPF_CORE_READ(iocb, ki_filp, f_inode) : NULL;
	return inode && (PEEK(inode, i_mode) & S_IFMT) == S_IFBLK ? iocb : NULL;
}

/* The asynchronous request that direct I/O is for, if what the bio points to, or is part of, is
 * one's. */
static __always_inline __u64 request_for(struct bio *bio)
{
	struct iomap_dio *dio = PEEK(bio, bi_private);
	struct kiocb *iocb = NULL;

	if (bpf_core_type_exists(struct iomap_dio))
		iocb = PEEK(dio, iocb);
	if (!iocb)
		iocb = kiocb_around(bio);
	return iocb ? kiocb_key_of(iocb) : 0;
}

/* The file whose pages a bio has, 0: none.  A page that is written bears a flag, one that is read is
 * locked: of O_DIRECT's own, which may be some file's as well, neither is known. */
static __always_inline __u64 bio_cached_inode(struct bio *bio)
{
	struct page *page = NULL;

	if (PEEK(bio, bi_iter.bi_size))
		page = BPF_CORE_READ(bio, bi_io_vec, bv_page);

	if (!page)
		return 0;
	return page_is_locked(page) || page_is_written(page) ? page_inode(page) : 0;
}

static __noinline void held_emit(struct bio *bio, bool rest)
{
	struct inode *inode = (struct inode *)bio_cached_inode(bio);
	__u64 number = inode ? inode_number((__u64)inode) : 0;
	__u32 dev = inode ? BPF_CORE_READ(inode, i_sb, s_dev) : 0;
	union event *e = emit_reserve(POINT_block_bio_held);

	if (!e)
		return;
	e->block_bio_held.inode = number;
	e->block_bio_held.dev = dev;
	e->block_bio_held.rest = rest;
	e->block_bio_held.bio_key = (__u64)bio;
	e->block_bio_held.request_key = request_for(bio);
	e->block_bio_held.cgroup = 0;
	if (bpf_core_field_exists(bio->bi_blkg))
		e->block_bio_held.cgroup =
			cgroup_number(BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup));
	emit_submit(e, POINT_block_bio_held);
}

/* What a bio was split off: what bio_chain() makes it point to. Device mapper says that what is left
 * itself was split, which points to anything. */
static __always_inline struct bio *rest_of(struct bio *split)
{
	struct bio *rest = PEEK(split, bi_private);

	if (bpf_core_field_exists(split->bi_bdev) && PEEK(rest, bi_bdev) != PEEK(split, bi_bdev))
		return split;
	return rest;
}

/* What is left of a bio that was split is submitted again, and a limit of requests a second holds it
 * back anew (since Linux 9f5ede3c01f9, in v5.18). No point tells of that, nor is it queued again, as
 * BIO_TRACE_COMPLETION says that it was (submit_bio_noacct_nocheck of block/blk-core.c). So the worker
 * that takes it up tells, when that splits off more of it, or has got a request for the last of it. */
static __always_inline void rest_tell(struct bio *rest)
{
	if (!current_dispatches_throttled())
		return;
	thread_help(1);
	held_emit(rest, true);
}

static __always_inline int bio_emit(struct bio *bio, __u32 dev, __u32 point)
{
	bool kernel_thread = current_is_kernel_thread(), held = false;
	__u64 above_key = 0;
	__u32 data_tid = 0;
	union event *e;

	if (unlikely(point == POINT_block_bio_queue && kernel_thread)) {
		above_key = request_above(bio);
		held = current_dispatches_throttled();
		if (held)
			held_emit(bio, false);
		if (filter.who)
			data_tid = bio_data_tid(bio);
	}
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->block_bio_queue.bio_key = (__u64)bio;
	e->block_bio_queue.sector = bio->bi_iter.bi_sector;
	e->block_bio_queue.dev = dev;
	e->block_bio_queue.size_bytes = bio->bi_iter.bi_size;
	e->block_bio_queue.flags = bio->bi_opf;
	e->block_bio_queue.kernel_thread = above_key ? QUEUER_LOOP : kernel_thread;
	e->block_bio_queue.above_key = above_key;
	e->block_bio_queue.held = held;
	e->block_bio_queue.data_tid = data_tid;
	emit_submit(e, point);
	return 0;
}

/* Behind which byte of its file a bio's pages end, 0: it has them from another bio. */
static __always_inline __u64 bio_file_end(struct bio *bio, __u64 vectors)
{
	__u32 count = PEEK(bio, bi_vcnt), last;
	struct bio_vec *vector;
	__u64 page;

	if (!count)
		return 0;
	vector = (struct bio_vec *)(vectors + (count - 1) * bpf_core_type_size(struct bio_vec));
	/* Pages that are neighbours in memory by chance are of one vector. */
	last = PEEK(vector, bv_offset) + PEEK(vector, bv_len) - 1;
	page = (__u64)PEEK(vector, bv_page) + last / page_bytes * bpf_core_type_size(struct page);
	return page_number((struct page *)page) * page_bytes + last % page_bytes + 1;
}

/* Which part of a file a bio is to read.  Its pages are in order there, as readahead adds them, and
 * what is not next on the disk as well begins another bio: but for a hole they follow one another. */
static __always_inline void bio_file_emit(struct bio *bio)
{
	struct inode *inode = (struct inode *)bio_inode(bio);
	struct bio_vec *first = bio->bi_io_vec;
	union event *e;
	bool is_node;

	/* A part of another bio (a split one, or a clone) begins anywhere among that one's pages. */
	if (!inode || bio->bi_iter.bi_idx || bio->bi_iter.bi_bvec_done)
		return;
	if (!page_is_locked(PEEK(first, bv_page)))
		return;
	e = emit_reserve(POINT_block_bio_file);
	if (!e)
		return;
	is_node = (PEEK(inode, i_mode) & S_IFMT) == S_IFBLK;
	e->block_bio_file.bio_key = (__u64)bio;
	e->block_bio_file.inode = is_node ? 0 : inode_number((__u64)inode);
	e->block_bio_file.offset_bytes =
		page_number(PEEK(first, bv_page)) * page_bytes + PEEK(first, bv_offset);
	e->block_bio_file.dev = is_node ? PEEK(inode, i_rdev) : BPF_CORE_READ(inode, i_sb, s_dev);
	e->block_bio_file.size_bytes = bio->bi_iter.bi_size;
	e->block_bio_file.end_bytes = bio_file_end(bio, pointer_key(first));
	emit_submit(e, POINT_block_bio_file);
}

#endif
