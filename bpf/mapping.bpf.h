/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is mapped at an address, without the lock: bpf_find_vma only tries it, and fails
 * while another thread of the process maps something, or waits to.  The tree's nodes are freed by
 * RCU, in which each program runs.
 */
#ifndef IOSTRATA_MAPPING_BPF_H
#define IOSTRATA_MAPPING_BPF_H

#include "kernel.bpf.h"

/* From include/linux/maple_tree.h: a pointer to a node has its kind in the low bits. */
#define MAPLE_LEAF 1
#define MAPLE_ARANGE 3
#define MAPLE_KIND(entry) ((entry) >> 3 & 0xf)
#define MAPLE_NODE(entry) ((entry) & ~0xffull)
#define MAPLE_IS_NODE(root) (((root)&3) == 2 && (root) > 4096)
#define MAPLE_DEPTH 8
#define MAPLE_PIVOTS 15
#define MAPLE_ARANGE_PIVOTS 9

static __always_inline __u64 maple_word(__u64 node, __u32 offset, __u32 number)
{
	__u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)(node + offset + number * sizeof(word)));
	return word;
}

/* The entry of the first range that ends behind an address, as mtree_lookup_walk() has it.  Not
 * static: the verifier then looks at it once, instead of once for each node on the way. */
__noinline __u64 maple_next(__u64 entry, __u64 address)
{
	bool gaps = MAPLE_KIND(entry) == MAPLE_ARANGE;
	__u32 pivots = gaps ? bpf_core_field_offset(struct maple_arange_64, pivot)
			    : bpf_core_field_offset(struct maple_range_64, pivot);
	__u32 slots = gaps ? bpf_core_field_offset(struct maple_arange_64, slot)
			   : bpf_core_field_offset(struct maple_range_64, slot);
	__u32 count = gaps ? MAPLE_ARANGE_PIVOTS : MAPLE_PIVOTS, at;

	for (at = 0; at < MAPLE_PIVOTS; at++) {
		if (at >= count || maple_word(MAPLE_NODE(entry), pivots, at) >= address)
			break;
	}
	return maple_word(MAPLE_NODE(entry), slots, at);
}

/* NULL: nothing, or this kernel keeps its mappings otherwise (before Linux 524e00b36e8c, in
 * v6.1). */
static __always_inline struct vm_area_struct *mapping_at(struct task_struct *task, __u64 address)
{
	struct vm_area_struct *vma;
	__u64 entry;

	if (!bpf_core_field_exists(((struct mm_struct *)0)->mm_mt.ma_root))
		return NULL;
	entry = (__u64)BPF_CORE_READ(task, mm, mm_mt.ma_root);
	if (!MAPLE_IS_NODE(entry))
		return NULL;
	for (__u32 depth = 0; depth < MAPLE_DEPTH; depth++) {
		bool leaf = MAPLE_KIND(entry) == MAPLE_LEAF;

		entry = maple_next(entry, address);
		if (leaf)
			break;
	}
	vma = (struct vm_area_struct *)entry;
	if (!vma || PEEK(vma, vm_start) > address || PEEK(vma, vm_end) <= address)
		return NULL;
	return vma;
}

#endif
