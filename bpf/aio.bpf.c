// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * libaio: the control blocks that io_submit took, and those that io_getevents
 * returned, read from the process when the system call returns; those of QEMU (a virtual machine
 * monitor, qemu-nbd), which need not call io_getevents, also when the kernel completes them.
 */
#include <asm/unistd.h>
#include <linux/aio_abi.h>

#include "beside.bpf.h"
#include "file.bpf.h"
#include "stand_in.bpf.h"
#include "switches.bpf.h"
#include "task.bpf.h"
#include "work.bpf.h"

#define AIO_BLOCKS 256 /* of one call; more are counted as lost */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kioctx_table {
	unsigned int nr;
	struct kioctx *table[0];
};

#pragma clang attribute pop

struct aio_enter_context {
	__u64 common;
	int nr;
	__u64 args[6];
};

struct aio_exit_context {
	__u64 common;
	int nr;
	__s64 result;
};

/* The blocks under way of those that read libaio's ring themselves:
 * by key; the value means nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u32);
} aio_expected SEC(".maps");

/* scratch: the context's id, the array of pointers to blocks (or of results), and which descriptor
 * was looked at before a call last, plus one */
static __always_inline int call_enter(__u32 call, __u64 id, __u64 array)
{
	struct thread *thread = thread_admit();

	if (!thread)
		return 0;
	thread->call = call;
	thread->scratch[0] = id;
	thread->scratch[1] = array;
	barrier();
	thread->enter_ns = bpf_ktime_get_ns();
	switches_begin(thread);
	return 0;
}

/* Finds the context as the kernel does: its place in the process's table is the
 * first word of the ring that it shares with the process. */
static __always_inline struct kioctx *context_of(__u64 id)
{
	struct task_struct *task = current_task();
	struct mm_struct *mm = PEEK(task, mm);
	struct kioctx_table *table = PEEK(mm, ioctx_table);
	struct kioctx *context = NULL;
	__u32 place = 0;

	bpf_probe_read_user(&place, sizeof(place), (void *)id);
	if (place >= PEEK(table, nr))
		return NULL;
	bpf_core_read(&context, sizeof(context), &table->table[place]);
	return context;
}

static __always_inline bool block_reads(__u32 opcode)
{
	return opcode == IOCB_CMD_PREAD || opcode == IOCB_CMD_PREADV;
}

/* Of what reads, that is asked again where its file is known. */
static __always_inline bool block_is_recorded(__u32 opcode)
{
	__u32 wanted = 1 << IOCB_CMD_PWRITE | 1 << IOCB_CMD_PWRITEV | 1 << IOCB_CMD_FSYNC |
		       1 << IOCB_CMD_FDSYNC;

	return (opcode < 32 && (wanted >> opcode & 1)) || (filter.reads && block_reads(opcode));
}

/* One of the results that io_getevents returns. */
struct aio_result {
	__u64 data;
	__u64 address;
	__s64 result;
	__s64 result2;
};

static __always_inline void submit_emit(const struct thread *thread, __u64 key, __u32 order,
					const struct iocb *block, const struct file_identity *file)
{
	union event *e = emit_reserve(POINT_aio_submit);

	if (!e)
		return;
	e->aio_submit.enter_ns = thread->enter_ns;
	e->aio_submit.iocb_key = key;
	e->aio_submit.inode = file->inode;
	e->aio_submit.offset_bytes = block->aio_offset;
	e->aio_submit.dev = file->dev;
	e->aio_submit.open_flags = file->open_flags;
	e->aio_submit.size_bytes = 0;
	if (block->aio_lio_opcode == IOCB_CMD_PWRITE || block->aio_lio_opcode == IOCB_CMD_PREAD)
		e->aio_submit.size_bytes = block->aio_nbytes;
	e->aio_submit.opcode = block->aio_lio_opcode;
	e->aio_submit.rwf = block->aio_rw_flags;
	e->aio_submit.order = order;
	emit_submit(e, POINT_aio_submit);
}

/* enter_ns 0: in no system call that collects it */
static __always_inline void complete_emit(__u64 enter_ns, __u64 key, __s64 result,
					  const struct file_identity *file, __u32 opcode, __u32 rwf)
{
	union event *e = emit_reserve(POINT_aio_complete);

	if (!e)
		return;
	e->aio_complete.enter_ns = enter_ns;
	e->aio_complete.iocb_key = key;
	e->aio_complete.inode = file->inode;
	e->aio_complete.dev = file->dev;
	e->aio_complete.result = result;
	e->aio_complete.open_flags = file->open_flags;
	e->aio_complete.opcode = opcode;
	e->aio_complete.rwf = rwf;
	emit_submit(e, POINT_aio_complete);
}

/* One control block, read from the process; false: not to be recorded. */
static __always_inline bool block_read(struct iocb *block, __u64 address, __u32 point)
{
	if (!bpf_probe_read_user(block, sizeof(*block), (void *)address))
		return block_is_recorded(block->aio_lio_opcode);
	emit_lost(current_cpu(), point);
	return false;
}

/* Not static: the verifier then looks at it once, instead of once a turn of the loop. */
int aio_block(__u64 context, __u32 order, __u32 point)
{
	struct thread *thread = thread_of(current_tid());
	struct file_identity file;
	struct aio_result done = {};
	struct iocb block;
	struct file *opened;
	__u64 key;

	if (!thread)
		return 0;
	if (point == POINT_aio_submit)
		bpf_probe_read_user(&done.address, sizeof(done.address),
				    (void *)(thread->scratch[1] + order * sizeof(done.address)));
	else
		bpf_probe_read_user(&done, sizeof(done),
				    (void *)(thread->scratch[1] + order * sizeof(done)));
	if (!block_read(&block, done.address, point))
		return 0;
	opened = (struct file *)file_of_descriptor(block.aio_fildes);
	if (!opened || !file_identify(opened, &file))
		return 0;
	if (filter.reads && block_reads(block.aio_lio_opcode) && !read_is_wanted(file.open_flags))
		return 0;
	if (point == POINT_aio_submit)
		file_tell(&file, 0);
	thread->collects = 1;
	key = aio_key(context, done.address);
	if (point == POINT_aio_submit)
		submit_emit(thread, key, order, &block, &file);
	else
		complete_emit(thread->enter_ns, key, done.result, &file, block.aio_lio_opcode,
			      block.aio_rw_flags);
	return 0;
}

/* A block that is about to be submitted, by a process whose completions the kernel tells. */
int aio_expect(__u64 context, __u32 order)
{
	struct thread *thread = thread_of(current_tid());
	__u64 address = 0, key;
	struct iocb block;

	if (!thread)
		return 0;
	bpf_probe_read_user(&address, sizeof(address),
			    (void *)(thread->scratch[1] + order * sizeof(address)));
	/* What cannot be read is counted when it has been submitted. */
	if (bpf_probe_read_user(&block, sizeof(block), (void *)address) ||
	    !block_is_recorded(block.aio_lio_opcode))
		return 0;
	key = aio_key(context, address);
	bpf_map_update_elem(&aio_expected, &key, &order, BPF_ANY);
	return 0;
}

/* First, so that it is attached first: no call is begun whose end is not seen.  One for all, as the
 * kernel takes long to verify it. */
PROGRAM("tp", aio_exit, struct aio_exit_context *ctx)
{
	__u32 point = ctx->nr == __NR_io_submit ? POINT_aio_submit : POINT_aio_complete;
	struct thread *thread = thread_of(current_tid());
	__s64 count = ctx->result;
	__u64 context;

	if (thread && unlikely(thread_is_beside(thread)))
		beside_end();
	if (!thread || !thread->enter_ns)
		return 0;
	if (count > 0) {
		caller_announce(thread);
		switches_end(thread);
		context = (__u64)context_of(thread->scratch[0]);
		for (__u32 i = 0; i < AIO_BLOCKS && i < count; i++)
			aio_block(context, i, point);
		if (count > AIO_BLOCKS)
			emit_lost_count(current_cpu(), point, count - AIO_BLOCKS);
	}
	thread->enter_ns = 0;
	return 0;
}

static __always_inline bool reads_ring(const struct thread *thread)
{
	return thread->kind == THREAD_VMM ||
	       (thread->kind == THREAD_DAEMON && current_has_name_of(DUTY_qemu_nbd));
}

/* Before they are submitted, as they may complete before that call has returned. */
static __always_inline void expect_all(__u64 id, __s64 count)
{
	struct thread *thread = thread_of(current_tid());
	__u64 context;

	if (!thread || !reads_ring(thread))
		return;
	context = (__u64)context_of(id);
	for (__u32 i = 0; i < AIO_BLOCKS && i < count; i++)
		aio_expect(context, i);
}

/* A disk that is asked for something itself is watched before that: a limit may hold it back, so
 * that a worker queues it while this call waits, and another one carries syncs out.  Of the first
 * block's file only, as mostly all are of one. */
int aio_look_ahead(__u64 array)
{
	struct thread *thread = thread_of(current_tid());
	struct file_identity identity;
	struct iocb *block = NULL;
	__u32 descriptor = 0;
	struct file *file;

	if (!thread || !thread->enter_ns ||
	    bpf_probe_read_user(&block, sizeof(block), (void *)array) ||
	    bpf_probe_read_user(&descriptor, sizeof(descriptor), &block->aio_fildes) ||
	    thread->scratch[2] == descriptor + 1ull)
		return 0;
	thread->scratch[2] = descriptor + 1ull;
	file = (struct file *)file_of_descriptor(descriptor);
	if (file)
		file_identify(file, &identity);
	return 0;
}

SEC("tp/syscalls/sys_enter_io_submit")
int aio_submit_enter(struct aio_enter_context *ctx)
{
	call_enter(CALL_IO_SUBMIT, ctx->args[0], ctx->args[2]);
	aio_look_ahead(ctx->args[2]);
	if (filter.duties & (DUTY_BIT(vmm) | DUTY_BIT(qemu_nbd)))
		expect_all(ctx->args[0], ctx->args[1]);
	return 0;
}

PROGRAM("tp", aio_getevents_enter, struct aio_enter_context *ctx)
{
	return call_enter(CALL_IO_GETEVENTS, ctx->args[0], ctx->args[3]);
}

/* In whatever thread or interrupt completes it. */
PROGRAM("fentry/aio_complete", aio_complete_kernel, __u64 *ctx)
{
	struct aio_kiocb *control = (void *)ctx[0];
	__u64 key = aio_key_of(control);
	struct file_identity identity;
	struct file *file;

	if (bpf_map_delete_elem(&aio_expected, &key))
		return 0;
	file = PEEK((struct kiocb *)control, ki_filp);
	if (file && file_identify(file, &identity))
		complete_emit(0, key, PEEK(control, ki_res.res), &identity, 0, 0);
	return 0;
}
