/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A system call from its entry, stashed in the thread's state, to its return, one event. */
#ifndef IOSTRATA_SYSCALL_BPF_H
#define IOSTRATA_SYSCALL_BPF_H

#include "file.bpf.h"
#include "calls.h"
#include "switches.bpf.h"
#include "task.bpf.h"

/* From linux/fs.h; the latter since Linux 73fa7547c70b, in v6.9. */
#define RWF_APPEND 0x10
#define RWF_NOAPPEND 0x20

extern const volatile __u32 page_bytes;

static __always_inline bool call_writes(const struct thread *thread)
{
	return thread->call <= CALL_PWRITEV2 ||
	       (thread->call >= CALL_SENDFILE && thread->call <= CALL_COPY_FILE_RANGE);
}

static __always_inline bool call_reads(const struct thread *thread)
{
	return thread->call >= CALL_READ && thread->call <= CALL_PREADV2;
}

static __always_inline bool call_changes(const struct thread *thread)
{
	return thread->call == CALL_FALLOCATE || thread->call == CALL_FTRUNCATE;
}

/* Files that are read, or written durably, have to have names. */
static __always_inline bool call_is_durable(const struct thread *thread)
{
	if (call_changes(thread))
		return thread->size_bytes || thread->open_flags & durable_flags(thread->call);
	return !call_writes(thread) || thread->open_flags & (O_DSYNC | OPEN_OF_SYNC_INODE) ||
	       thread->rwf;
}

/* A write to the end of the file, wherever its call says: Linux takes no notice of the place. */
static __always_inline bool call_appends(const struct thread *thread)
{
	if (thread->call > CALL_PWRITEV2 || thread->offset_bytes < 0)
		return false;
	if (thread->open_flags & O_APPEND)
		return !(thread->rwf & RWF_NOAPPEND);
	return thread->rwf & RWF_APPEND;
}

static __always_inline void call_begin(struct thread *thread, const struct file_identity *file)
{
	thread->file_key = file->file_key;
	thread->inode = file->inode;
	thread->dev = file->dev;
	thread->open_flags = file->open_flags;
	thread->generation = file->generation;
	if (unlikely(call_appends(thread)))
		thread->offset_bytes = file_size(file->file_key);
	if (call_is_durable(thread))
		thread->name_tag = file_tell(file, thread->name_tag);
	barrier();
	thread->enter_ns = bpf_ktime_get_ns();
	switches_begin(thread);
}

static __always_inline void call_is(struct thread *thread, __u8 call, __s64 offset_bytes,
				    __u32 size_bytes, __u8 rwf)
{
	thread->call = call;
	thread->offset_bytes = offset_bytes;
	thread->size_bytes = size_bytes;
	thread->rwf = rwf;
}

/* The current thread, if it is recorded and the descriptor is a file's; else NULL. */
static __always_inline struct thread *caller(__u32 descriptor, struct file_identity *identity)
{
	struct thread *thread = thread_admit();

	return thread && descriptor_identify(descriptor, identity) ? thread : NULL;
}

static __always_inline __s64 offset_moved(const struct thread *thread, __s64 result)
{
	/* Where the file has grown by something else as well, it is not known which came first. */
	if (unlikely(call_appends(thread)) &&
	    file_size(thread->file_key) - thread->offset_bytes != (result > 0 ? result : 0))
		return -1;
	if (thread->offset_bytes >= 0)
		return thread->offset_bytes;
	if (!call_writes(thread) && !call_reads(thread))
		return -1;
	return file_position(thread->file_key) - (result > 0 ? result : 0);
}

/* number: the call's; -1: not each call of that number is looked at when it begins. */
static __always_inline void call_end(struct thread *thread, int number, __s64 result)
{
	__u64 enter_ns = thread->enter_ns;
	union event *e;

	caller_announce(thread);
	switches_end(thread);
	e = emit_reserve(POINT_syscall);
	if (e) {
		e->syscall.enter_ns = enter_ns;
		e->syscall.inode = thread->inode;
		e->syscall.offset_bytes = offset_moved(thread, result);
		e->syscall.dev = thread->dev;
		e->syscall.result = result;
		e->syscall.size_bytes = thread->size_bytes;
		if (!thread->size_bytes && call_writes(thread) && result > 0)
			e->syscall.size_bytes = result;
		e->syscall.tgid = thread->tgid;
		e->syscall.open_flags = thread->open_flags;
		e->syscall.call = thread->call;
		e->syscall.rwf = thread->rwf;
		e->syscall.generation = thread->generation;
		emit_submit(e, POINT_syscall);
	} else if (recording_over) {
		return;
	}
	thread->enter_ns = 0;
	barrier();
	thread->ended_ns = enter_ns;
	thread->behind = number + 1;
}

#endif
