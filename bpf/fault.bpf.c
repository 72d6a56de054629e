// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Faults of pages of mapped files, which read them as a call would: only where reads are recorded.
 * The kernel's own points tell of a fault's begin or of its end, or of those that are of no file.
 */
#include <linux/errno.h>

#include "stand_in.bpf.h"
#include "syscall.bpf.h"

#define VM_FAULT_ERROR 0x873 /* any of the bits that say that there is no page */
#define FAULT_FLAG_TRIED (1 << 5)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff;
	unsigned int flags; /* an enum since Linux da2f5eb3d344, in v5.13 */
};

enum fault_flag {
	FAULT_FLAG_NONE
};

struct vm_fault___enum {
	enum fault_flag flags;
};

#pragma clang attribute pop

static __always_inline bool is_tried_again(struct vm_fault *fault)
{
	__u32 flags;

	if (bpf_core_field_exists(fault->flags))
		flags = PEEK(fault, flags);
	else
		flags = PEEK((struct vm_fault___enum *)fault, flags);
	return flags & FAULT_FLAG_TRIED;
}

/* What had to wait for its page is tried again once that is there, mostly by mapping it (with those
 * around it) without coming here. */
PROGRAM("fexit/filemap_fault", fault_end, __u64 *ctx)
{
	struct thread *thread = thread_of(current_tid());
	__u32 result = ctx[1];

	if (!thread || !thread->enter_ns || thread->call != CALL_FAULT)
		return 0;
	call_end(thread, -1, result & VM_FAULT_ERROR ? -EFAULT : (__s64)page_bytes);
	return 0;
}

/* A page that no other's fault had mapped with its own, and which may have to be read.  One amid a
 * call, of its buffer, is a part of that. */
PROGRAM("fentry/filemap_fault", fault_begin, __u64 *ctx)
{
	struct vm_fault *fault = (void *)argument_key(ctx, 0);
	struct file *file = BPF_CORE_READ(fault, vma, vm_file);
	struct thread *thread = thread_admit();
	struct file_identity identity;

	if (!thread || thread->enter_ns || filter.reads != READS_EVERY || is_tried_again(fault) ||
	    !file || !file_identify(file, &identity))
		return 0;
	/* However it was opened: what is mapped is in the page cache. */
	identity.open_flags &= ~O_DIRECT;
	call_is(thread, CALL_FAULT, PEEK(fault, pgoff) * page_bytes, page_bytes, 0);
	call_begin(thread, &identity);
	return 0;
}
