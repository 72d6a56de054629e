// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Names, told in parts: the last one first, as what is above is found from what is
 * below.  Where one is, is one number, so that the verifier sees all turns of the loop as one.
 */
#include "file.bpf.h"

#define NAME_PARTS 64   /* of one path */
#define PARTS_AT_ONCE 8 /* see FOLLOWS_AT_ONCE */

/* Where a path has been told up to: the part, the component, how much of that. */
#define PLACE(part, component, offset) \
	((__u64)(part) << 32 | (__u64)(component) << 16 | (__u64)(offset))
#define PLACE_PART(place) ((__u16)((place) >> 32))
#define PLACE_COMPONENT(place) ((__u8)((place) >> 16))
#define PLACE_OFFSET(place) ((__u16)(place))
/* How many components one place is above another. */
#define BETWEEN(place, next) (PLACE_COMPONENT(next) - PLACE_COMPONENT(place))
#define PLACE_REFUSED (-1)
#define PLACE_END (-2)

/* Tells one part; where to go on.  Not static: see watch_add. */
__noinline long file_name_part(__u64 dentry_key, __u64 place, __u64 inode, __u32 dev,
			       __u32 root_dev)
{
	struct dentry *dentry = (struct dentry *)dentry_key;
	const unsigned char *name = PEEK(dentry, d_name.name) + PLACE_OFFSET(place);
	__u32 length = PEEK(dentry, d_name.hash_len) >> 32, end;
	bool root = dentry == PEEK(dentry, d_parent);
	union event *e = emit_reserve(POINT_file_name);

	if (!e)
		return PLACE_REFUSED;
	e->file_name.inode = inode;
	e->file_name.dev = dev;
	e->file_name.root_dev = root_dev;
	e->file_name.part = PLACE_PART(place);
	e->file_name.component = PLACE_COMPONENT(place);
	e->file_name.last = root;
	__builtin_memset(e->file_name.text, 0, sizeof(e->file_name.text));
	if (!root)
		bpf_probe_read_kernel_str(e->file_name.text, sizeof(e->file_name.text), name);
	end = PLACE_OFFSET(place) + sizeof(e->file_name.text) - 1;
	emit_submit(e, POINT_file_name);
	if (root)
		return PLACE_END;
	if (end < length)
		return PLACE(PLACE_PART(place) + 1, PLACE_COMPONENT(place), end);
	return PLACE(PLACE_PART(place) + 1, PLACE_COMPONENT(place) + 1, 0);
}

/* The entry so many above another, where no more than those of PARTS_AT_ONCE parts lie between.  Not
 * static: see watch_add. */
__noinline __u64 file_name_above(__u64 dentry_key, __u32 count)
{
	for (__u32 i = 0; i < PARTS_AT_ONCE && i < count; i++)
		dentry_key = (__u64)PEEK((struct dentry *)dentry_key, d_parent);
	return dentry_key;
}

/* Tells some parts; where to go on, unless all was told or one was refused.  Not static: see
 * watch_add. */
__noinline long file_name_parts(__u64 dentry_key, __u64 place, __u64 inode, __u32 dev,
				__u32 root_dev)
{
	for (__u32 i = 0; i < PARTS_AT_ONCE; i++) {
		long next = file_name_part(dentry_key, place, inode, dev, root_dev);

		if (next < 0)
			return next;
		dentry_key = file_name_above(dentry_key, BETWEEN(place, next));
		place = next;
	}
	return place;
}

int file_name_tell(__u64 dentry_key, __u64 inode, __u32 dev, __u32 root_dev)
{
	long place = 0;

	for (__u32 part = 0; part < NAME_PARTS; part += PARTS_AT_ONCE) {
		long next = file_name_parts(dentry_key, place, inode, dev, root_dev);

		if (next < 0)
			return next == PLACE_END;
		dentry_key = file_name_above(dentry_key, BETWEEN(place, next));
		place = next;
	}
	return 1;
}
