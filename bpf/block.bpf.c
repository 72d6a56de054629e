// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The block layer: bios queued, split and remapped; requests issued and completed. */
#include "bio.bpf.h"
#include "block.bpf.h"
#include "interrupt.bpf.h"
#include "stand_in.bpf.h"

/* Further bios of one request that are recorded; what exceeds them is tied by its place. */
#define MAX_MERGED 128
#define BIOS_AT_ONCE 16 /* see FOLLOWS_AT_ONCE */

/* 1 where these points still have the queue as their first argument (removed by
 * Linux a54895fa057c, in v5.11 and v5.10.137); set by the recorder. */
extern const volatile bool block_rq_argument;
extern const volatile bool block_bio_argument;

/* Whether block_rq_complete says -errno or blk_status_t (since Linux 8a7d267b4a2d,
 * in v5.16); set by the recorder. */
extern const volatile bool block_status_argument;

/* Whether what a recorded thread does is of a file system that --device allows: it is in a call on
 * one, unless that is for many requests, or commits. */
static __always_inline bool is_on_allowed(const struct thread *thread)
{
	return thread->kind == THREAD_JOURNAL || thread->sync_enter_ns ||
	       (thread->enter_ns && thread->kind <= THREAD_TARGET &&
		(thread->call < CALL_IO_SUBMIT || thread->call > CALL_IO_URING_ENTER));
}

/* A recorded thread's first bio on a device makes that device watched: with --device, too, where a
 * file system that is allowed has its log, journal or data there. */
static __always_inline bool bio_watched(__u32 dev)
{
	struct thread *thread;

	if (watch_of(dev) & WATCH_DISK)
		return true;
	thread = thread_of(current_tid());
	/* What kernel threads do elsewhere is nobody's here. */
	if (!thread || !thread->kind || thread->kind == THREAD_HELPER ||
	    thread->kind == THREAD_BESIDE)
		return false;
	if (filter.device && !is_on_allowed(thread))
		return false;
	watch_add(dev, WATCH_DISK);
	return true;
}

/* The same, of what a limit held back: whose it is, its file may tell. */
static __always_inline bool read_note_held(struct bio *bio)
{
	if (!is_data_read(bio->bi_opf) || !current_is_kernel_thread() ||
	    !current_dispatches_throttled())
		return false;
	read_keep(bio);
	return true;
}

/* A disk itself has no file system that tells of its sync: a worker that queues something there is
 * at it, if its work is libaio's fsync of that disk (aio_fsync_work of fs/aio.c). */
static __noinline void node_sync_tell(__u32 disk)
{
	struct work_struct *work = current_work(current_task());
	struct fsync_iocb *fsync;
	struct block_device *synced;
	struct inode *inode;
	struct file *file;
	__u32 dev, datasync;
	union event *e;
	__u64 key;

	if (!work || !bpf_core_field_exists(struct fsync_iocb, work))
		return;
	fsync = (void *)work - bpf_core_field_offset(struct fsync_iocb, work);
	key = aio_key_of((struct aio_kiocb *)fsync);
	file = key ? PEEK(fsync, file) : NULL;
	inode = file ? PEEK(file, f_inode) : NULL;
	if (!inode || (PEEK(inode, i_mode) & S_IFMT) != S_IFBLK)
		return;
	synced = (void *)device_at_node((__u64)BPF_CORE_READ(file, f_mapping, host));
	if (!synced || disk_dev_of(PEEK(synced, bd_disk)) != disk)
		return;
	dev = PEEK(inode, i_rdev);
	datasync = PEEK(fsync, datasync);
	e = emit_reserve(POINT_blkdev_fsync);
	if (!e)
		return;
	e->blkdev_fsync.inode = dev;
	e->blkdev_fsync.request_key = key;
	e->blkdev_fsync.dev = dev;
	e->blkdev_fsync.datasync = datasync;
	emit_submit(e, POINT_blkdev_fsync);
}

static __always_inline int bio_queued(struct bio *bio)
{
	__u32 dev = bio_dev_at_once(bio);
	bool for_call = read_note(bio) || read_note_own(bio, dev) || read_note_held(bio);
	struct thread *thread;

	if (!for_call && !is_recorded(bio->bi_opf, bio))
		return 0;
	compat_notice();
	/* That somebody else reads from a disk makes it nobody's who writes. */
	if (!filter.reads && !for_call && is_data_read(bio->bi_opf) ? !(watch_of(dev) & WATCH_DISK)
								    : !bio_watched(dev))
		return 0;
	thread_serve();
	thread = thread_of(current_tid());
	if (likely(thread)) {
		thread_tell(thread);
		thread->bio_key = (__u64)bio;
		uring_work_tell(thread, 0);
		if (unlikely(thread->kind == THREAD_HELPER && current_is_pooled()))
			node_sync_tell(dev);
	} else {
		task_tell();
	}
	bio_emit(bio, dev, POINT_block_bio_queue);
	if (filter.reads && is_data_read(bio->bi_opf))
		bio_file_emit(bio);
	return 0;
}

PROGRAM("tp_btf/block_bio_queue", block_bio_queue, __u64 *ctx)
{
	/* Two calls: the verifier takes no computed place in the context. */
	if (block_bio_argument)
		return bio_queued(ARGUMENT(struct bio *, 1));
	return bio_queued(ARGUMENT(struct bio *, 0));
}

/* Its disk, 0: it is not recorded. */
static __always_inline __u32 watched_dev(struct bio *bio)
{
	__u32 dev = bio_dev_at_once(bio);

	if (!is_recorded(bio->bi_opf, bio))
		return 0;
	return watch_of(dev) & WATCH_DISK ? dev : 0;
}

/* The recorder attaches what looks at the last of each that was split. */
static __always_inline void splits_begin(void)
{
	bool first = !splits_met;

	__sync_fetch_and_add(&splits_met, 1);
	if (unlikely(first) && has_cmpxchg)
		ring_wake();
}

/* The parent is what bio_chain() makes a split bio point to; device mapper says the bio
 * itself was split, which points to anything. */
static __always_inline int bio_split(struct bio *bio)
{
	__u32 dev = watched_dev(bio);
	union event *e;

	if (!dev)
		return 0;
	splits_begin();
	if (unlikely(current_is_pooled()))
		rest_tell(rest_of(bio));
	e = emit_reserve(POINT_block_split);
	if (!e)
		return 0;
	e->block_split.bio_key = (__u64)bio;
	e->block_split.parent_key = (__u64)bio->bi_private;
	e->block_split.sector = bio->bi_iter.bi_sector;
	e->block_split.dev = dev;
	e->block_split.size_bytes = bio->bi_iter.bi_size;
	e->block_split.flags = bio->bi_opf;
	emit_submit(e, POINT_block_split);
	return 0;
}

PROGRAM("tp_btf/block_split", block_split, __u64 *ctx)
{
	if (block_bio_argument)
		return bio_split(ARGUMENT(struct bio *, 1));
	return bio_split(ARGUMENT(struct bio *, 0));
}

/* Only of disks that complete bios themselves: a request's bios are traced by the
 * request, which clears the mark that this point asks for (blk_update_request). */
PROGRAM("tp_btf/block_bio_complete", block_bio_complete, __u64 *ctx)
{
	struct bio *bio = ARGUMENT(struct bio *, 1);
	__u32 dev = watched_dev(bio);

	if (dev)
		bio_emit(bio, dev, POINT_block_bio_complete);
	read_forget(bio->bi_opf, bio);
	return 0;
}

static __always_inline int bio_got(struct bio *bio)
{
	__u32 dev = watched_dev(bio);

	return dev ? bio_emit(bio, dev, POINT_block_getrq) : 0;
}

SEC("tp_btf/block_getrq")
int block_getrq(__u64 *ctx)
{
	if (block_bio_argument)
		return bio_got(ARGUMENT(struct bio *, 1));
	return bio_got(ARGUMENT(struct bio *, 0));
}

static __always_inline int bio_rest_got(struct bio *bio)
{
	if ((bio->bi_iter.bi_idx || bio->bi_iter.bi_bvec_done) && watched_dev(bio))
		rest_tell(bio);
	return 0;
}

/* What begins amid its pages is the last of a bio that was split, or was itself split off one, of which
 * it says nothing new: whether it may be merged (REQ_NOMERGE) does not tell them apart for sure.
 * Attached when one was split: it is hit by each request. */
SEC("tp_btf/block_getrq")
int block_rest_got(__u64 *ctx)
{
	if (likely(!current_is_pooled()))
		return 0;
	if (block_bio_argument)
		return bio_rest_got(ARGUMENT(struct bio *, 1));
	return bio_rest_got(ARGUMENT(struct bio *, 0));
}

static __always_inline int bio_remapped(struct bio *bio, __u32 old_dev, __u64 old_sector)
{
	__u32 dev = bio_dev_at_once(bio);
	union event *e;

	/* A partition is never watched, so its remap to the whole disk ends here. */
	if (!(watch_of(old_dev) & WATCH_DISK))
		return 0;
	if (dev == old_dev)
		return 0;
	/* Device mapper tells of its own bio for another device before it queues that. */
	if (!read_note_below(bio) && !is_recorded(bio->bi_opf, bio))
		return 0;
	if (!(watch_of(dev) & WATCH_DISK))
		watch_add(dev, WATCH_DISK);
	e = emit_reserve(POINT_block_bio_remap);
	if (!e)
		return 0;
	e->block_bio_remap.bio_key = (__u64)bio;
	e->block_bio_remap.sector = bio->bi_iter.bi_sector;
	e->block_bio_remap.old_sector = old_sector;
	e->block_bio_remap.dev = dev;
	e->block_bio_remap.old_dev = old_dev;
	e->block_bio_remap.size_bytes = bio->bi_iter.bi_size;
	e->block_bio_remap.flags = bio->bi_opf;
	emit_submit(e, POINT_block_bio_remap);
	return 0;
}

PROGRAM("tp_btf/block_bio_remap", block_bio_remap, __u64 *ctx)
{
	if (block_bio_argument)
		return bio_remapped(ARGUMENT(struct bio *, 1), ctx[2], ctx[3]);
	return bio_remapped(ARGUMENT(struct bio *, 0), ctx[1], ctx[2]);
}

/* Whether a kernel thread itself is at a request, which is recorded from then on; so is one that
 * handles interrupts, whose own soft interrupts complete some. */
static __always_inline bool is_by_kernel_thread(const void *ctx)
{
	bool itself;

	if (!current_is_kernel_thread())
		return false;
	itself = !in_interrupt(ctx);
	/* Most come upon a CPU that has nothing to do. */
	if (itself || (current_tid() && current_handles_interrupts()))
		thread_help(1);
	return itself;
}

/* blk_errors[] of block/blk-core.c; all others are an I/O error */
static __always_inline int status_errno(__u32 status)
{
	switch (status) {
	case 0:
		return 0;
	case 1:
		return -95; /* EOPNOTSUPP */
	case 2:
		return -110; /* ETIMEDOUT */
	case 3:
		return -28; /* ENOSPC */
	case 4:
		return -67; /* ENOLINK */
	case 5:
		return -121; /* EREMOTEIO */
	case 7:
		return -61; /* ENODATA */
	case 8:
		return -84; /* EILSEQ */
	case 9:
		return -12; /* ENOMEM */
	default:
		return -5; /* EIO */
	}
}

/* ctx: of a program at which it matters who is at the request, or NULL; status: how it ended, as the
 * kernel says it.  The disk, 0: it is not recorded.  bio: the request's, looked up once, as the
 * verifier goes through all types of the kernel for each look at a pointer. */
static __always_inline __u32 request_emit(const void *ctx, struct request *rq, struct bio *bio,
					  __u32 status, __u32 size_bytes, __u32 point)
{
	struct request_queue *queue = request_queue(rq);
	bool by_kernel_thread = false;
	__u32 flags = rq->cmd_flags;
	union event *e;
	__u32 dev;

	if (!is_recorded(flags, bio))
		return 0;
	dev = request_dev(rq, queue);
	if (!(watch_of(dev) & WATCH_DISK))
		return 0;
	if (ctx)
		by_kernel_thread = is_by_kernel_thread(ctx);
	e = emit_reserve(point);
	if (!e)
		return dev;
	e->block_rq_issue.request_key = (__u64)rq;
	e->block_rq_issue.bio_key = (__u64)bio;
	e->block_rq_issue.sector = rq->__sector;
	e->block_rq_issue.dev = dev;
	e->block_rq_issue.size_bytes = size_bytes;
	e->block_rq_issue.flags = flags;
	e->block_rq_issue.error = block_status_argument ? status_errno(status) : (int)status;
	e->block_rq_issue.internal_flags = rq->rq_flags;
	e->block_rq_issue.by_kernel_thread = by_kernel_thread;
	emit_submit(e, point);
	return dev;
}

static __always_inline int request_event(struct request *rq, __u32 point)
{
	request_emit(NULL, rq, rq->bio, 0, rq->__data_len, point);
	return 0;
}

/* Not static: see watch_add. */
__noinline int request_bio(__u64 request_key, __u64 bio_key, __u32 dev)
{
	struct bio *bio = (struct bio *)bio_key;
	union event *e = emit_reserve(POINT_block_rq_bio);

	if (!e)
		return 0;
	e->block_rq_bio.request_key = request_key;
	e->block_rq_bio.bio_key = bio_key;
	e->block_rq_bio.sector = PEEK(bio, bi_iter.bi_sector);
	e->block_rq_bio.dev = dev;
	e->block_rq_bio.size_bytes = PEEK(bio, bi_iter.bi_size);
	emit_submit(e, POINT_block_rq_bio);
	return 0;
}

/* Some of a request's bios; the one behind them.  Not static: see watch_add. */
__noinline __u64 request_some_bios(__u64 request_key, __u64 bio_key, __u32 dev)
{
	for (__u32 i = 0; i < BIOS_AT_ONCE && bio_key; i++) {
		request_bio(request_key, bio_key, dev);
		bio_key = (__u64)PEEK((struct bio *)bio_key, bi_next);
	}
	return bio_key;
}

/* What was merged into a request: the points of merging do not say into which. */
static __noinline void request_bios(__u64 request_key, __u32 dev)
{
	struct request *rq = (struct request *)request_key;
	__u64 bio_key = (__u64)BPF_CORE_READ(rq, bio, bi_next);

	for (__u32 i = 0; i < MAX_MERGED && bio_key; i += BIOS_AT_ONCE)
		bio_key = request_some_bios(request_key, bio_key, dev);
}

static __always_inline int request_issued(__u64 *ctx, __u32 argument)
{
	struct request *rq = ARGUMENT(struct request *, argument);
	struct bio *bio = rq->bio;
	__u32 dev = request_emit(ctx, rq, bio, 0, rq->__data_len, POINT_block_rq_issue);

	if (dev && unlikely(bio && bio->bi_next))
		request_bios(argument_key(ctx, argument), dev);
	return 0;
}

PROGRAM("tp_btf/block_rq_issue", block_rq_issue, __u64 *ctx)
{
	if (block_rq_argument)
		return request_issued(ctx, 1);
	return request_issued(ctx, 0);
}

PROGRAM("tp_btf/block_rq_insert", block_rq_insert, __u64 *ctx)
{
	if (block_rq_argument)
		return request_event(ARGUMENT(struct request *, 1), POINT_block_rq_insert);
	return request_event(ARGUMENT(struct request *, 0), POINT_block_rq_insert);
}

PROGRAM("tp_btf/block_rq_requeue", block_rq_requeue, __u64 *ctx)
{
	if (block_rq_argument)
		return request_event(ARGUMENT(struct request *, 1), POINT_block_rq_requeue);
	return request_event(ARGUMENT(struct request *, 0), POINT_block_rq_requeue);
}

/* The bytes are those completed now, which can be fewer than the request has. */
PROGRAM("tp_btf/block_rq_complete", block_rq_complete, __u64 *ctx)
{
	struct request *rq = ARGUMENT(struct request *, 0);
	struct bio *bio = rq->bio;

	request_emit(ctx, rq, bio, ctx[1], ctx[2], POINT_block_rq_complete);
	read_forget(rq->cmd_flags, bio);
	return 0;
}
