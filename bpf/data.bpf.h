/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which part of which file a bio's pages hold; and whose data it is that kernel threads
 * write: a file's is of the thread that made one of its pages dirty last, as pages bear
 * nobody's name.
 */
#ifndef IOSTRATA_DATA_BPF_H
#define IOSTRATA_DATA_BPF_H

#include "thread.bpf.h"

#define COMPOUND_TAIL 1
#define PAGE_MAPPING_FLAGS 3 /* a page of no file */

extern struct dirtier dirtiers[1 << DIRTIERS_BITS];

static __always_inline struct dirtier *dirtier_of(__u64 inode_key)
{
	return &dirtiers[inode_key * 11400714819323198485ull >> (64 - DIRTIERS_BITS)];
}

/* Behind all pages: a mask, which clears the low bits of a page's address, is larger. */
#define PAGES_END (-1ull << 29)

static __always_inline struct page *folio_first(struct page *page)
{
	__u64 head;

	if (bpf_core_field_exists(page->compound_info))
		head = PEEK(page, compound_info);
	else
		head = PEEK(page, compound_head);
	if (!(head & COMPOUND_TAIL))
		return page;
	head -= COMPOUND_TAIL;
	return (struct page *)(head >= PAGES_END ? head & (__u64)page : head);
}

/* The file that a page belongs to, 0: none. */
static __always_inline __u64 page_inode(struct page *page)
{
	__u64 mapping = page ? (__u64)PEEK(folio_first(page), mapping) : 0;

	if (!mapping || mapping & PAGE_MAPPING_FLAGS)
		return 0;
	return (__u64)PEEK((struct address_space *)mapping, host);
}

static __always_inline __u64 bio_inode(struct bio *bio)
{
	return page_inode(BPF_CORE_READ(bio, bi_io_vec, bv_page));
}

/* Whether a page of the page cache is being read into (or written).  What O_DIRECT reads into may
 * be a file's page as well, that of its buffer: nobody holds its lock for that.  PG_locked is the
 * first flag, and the flags are the first word of struct page, on all kernels; their type is
 * another one since v6.18 (memdesc_flags_t). */
static __always_inline bool page_is_locked(struct page *page)
{
	unsigned long flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), folio_first(page));
	return flags & 1;
}

enum pageflags___kernel {
	PG_writeback
};

/* Whether it is on its way to the disk, by a flag that is another bit on each kernel. */
static __always_inline bool page_is_written(struct page *page)
{
	unsigned long flags = 0, bit;

	if (!bpf_core_enum_value_exists(enum pageflags___kernel, PG_writeback))
		return false;
	bit = bpf_core_enum_value(enum pageflags___kernel, PG_writeback);
	bpf_probe_read_kernel(&flags, sizeof(flags), folio_first(page));
	return flags >> bit & 1;
}

/* Where in its file a page of one lies, in pages. */
static __always_inline __u64 page_number(struct page *page)
{
	struct page *head = folio_first(page);
	__u64 behind = ((__u64)page - (__u64)head) / bpf_core_type_size(struct page);

	/* Linux 7b230db3b8d3, in v5.16 */
	if (bpf_core_type_exists(struct folio))
		return PEEK((struct folio *)head, index) + behind;
	return PEEK(head, index) + behind;
}

/* Who wrote last to the file that a bio carries data of, 0: not known. */
static __always_inline __u32 bio_data_tid(struct bio *bio)
{
	__u64 inode_key = bio->bi_iter.bi_size ? bio_inode(bio) : 0;
	struct dirtier *dirtier = dirtier_of(inode_key);

	return inode_key && dirtier->inode_key == inode_key ? dirtier->tid : 0;
}

#endif
