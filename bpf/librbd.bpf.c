// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Disks of Ceph that a virtual machine monitor reaches by itself (librbd): what it asks of them,
 * and the operations on objects that the library makes of that, as they are sent and answered.
 */
#include "ceph.bpf.h"

/* Of struct Message, behind its header (53 bytes) and footer (21 bytes). */
#define MESSAGE_PAYLOAD 104
/* Of ceph::buffer::v15_2_0::raw, behind its virtual table and room for a node. */
#define RAW_DATA 32
/* Of an operation on the wire (MOSDOp, version 8), where its object's locator has its key. */
#define OPERATION_VERSION 8
#define LOCATOR_KEY 117
#define MOST_NAME_BYTES 128
#define NUMBER_DIGITS 16
#define MOST_STEPS 4
#define MOST_PARTS 64
#define STEP_WRITE 0x2201
#define STEP_WRITE_ALL 0x2202

/* ceph::buffer::v15_2_0::list */
struct buffer_list {
	__u64 first;
	__u64 last;
	__u64 carriage;
	__u32 length;
	__u32 count;
};

/* ceph::buffer::v15_2_0::ptr_node */
struct buffer_part {
	__u64 next;
	__u64 raw;
	__u32 offset;
	__u32 length;
};

/* What struct ceph_osd_op begins with. */
struct operation_step {
	__u16 opcode;
	__u32 flags;
	__u64 offset;
	__u64 length;
	__u64 truncate_size;
	__u32 truncate_sequence;
	__u32 payload_bytes;
} __attribute__((packed));

struct io_vector {
	__u64 base;
	__u64 length;
};

static __always_inline int ask(__u64 image, __u64 offset, __u64 size, __u64 completion,
			       __u32 flushes)
{
	struct thread *thread = thread_that_serves();
	union event *e;

	if (!thread)
		return 0;
	thread_announce(thread);
	e = emit_reserve(POINT_librbd_request);
	if (!e)
		return 0;
	e->librbd_request.request_key = object_key(thread, completion);
	e->librbd_request.image_key = object_key(thread, image);
	e->librbd_request.offset_bytes = offset;
	e->librbd_request.size_bytes = size;
	e->librbd_request.tgid = thread->tgid;
	e->librbd_request.flushes = flushes;
	emit_submit(e, POINT_librbd_request);
	return 0;
}

/* rbd_aio_write(image, offset, size, data, completion) */
SEC("uprobe")
int librbd_write(struct pt_regs *ctx)
{
	return ask(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), PT_REGS_PARM5(ctx),
		   0);
}

/* rbd_aio_writev(image, parts, their number, offset, completion) */
SEC("uprobe")
int librbd_write_parts(struct pt_regs *ctx)
{
	__u64 parts = PT_REGS_PARM2(ctx), size = 0;
	__s32 count = PT_REGS_PARM3(ctx);

#pragma clang loop unroll(disable)
	for (__s32 i = 0; i < MOST_PARTS && i < count; i++) {
		struct io_vector part = {};

		read_user(&part, sizeof(part), parts + i * sizeof(part));
		size += part.length;
	}
	if (count > MOST_PARTS) {
		emit_lost(current_cpu(), POINT_librbd_request);
		return 0;
	}
	return ask(PT_REGS_PARM1(ctx), PT_REGS_PARM4(ctx), size, PT_REGS_PARM5(ctx), 0);
}

/* rbd_aio_flush(image, completion) */
SEC("uprobe")
int librbd_flush(struct pt_regs *ctx)
{
	return ask(PT_REGS_PARM1(ctx), 0, 0, PT_REGS_PARM2(ctx), 1);
}

/* rbd_aio_get_return_value(completion): asked for as soon as it is answered, by who is told so */
SEC("uprobe")
int librbd_done(struct pt_regs *ctx)
{
	struct thread *thread = thread_that_serves();
	union event *e;

	if (!thread)
		return 0;
	thread_announce(thread);
	e = emit_reserve(POINT_librbd_done);
	if (!e)
		return 0;
	e->librbd_done.request_key = object_key(thread, PT_REGS_PARM1(ctx));
	emit_submit(e, POINT_librbd_done);
	return 0;
}

/* The number that the name of a disk's object ends with; false: it has none. */
static __always_inline bool number_in(__u64 address, __u64 *number)
{
	char digits[NUMBER_DIGITS];

	if (!read_user(digits, sizeof(digits), address))
		return false;
	*number = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < NUMBER_DIGITS; i++) {
		char digit = digits[i];

		if (digit >= '0' && digit <= '9')
			*number = *number << 4 | (digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			*number = *number << 4 | (digit - 'a' + 10);
		else
			return false;
	}
	return true;
}

/* Where what a message has beside its header begins: whole only in one part. */
static __always_inline __u64 front_of(__u64 message, const struct message_header *header)
{
	struct buffer_list list;
	struct buffer_part part;
	__u64 data;

	if (!read_user(&list, sizeof(list), message + MESSAGE_PAYLOAD) ||
	    list.length != header->front_bytes || !read_user(&part, sizeof(part), list.first) ||
	    part.length != list.length)
		return 0;
	data = pointed_to(part.raw + RAW_DATA);
	return data ? data + part.offset : 0;
}

/* Which object of a disk's an operation writes to, and where; false: it is none such, or has
 * another form than is known. */
static __always_inline bool place_of(__u64 front, __u32 *size, __u64 *object, __u64 *offset)
{
	__u32 key_bytes, space_bytes, name_bytes;
	__u64 at = front + LOCATOR_KEY, kind = 0;
	__u16 count;

	if (!read_user(&key_bytes, sizeof(key_bytes), at) || key_bytes ||
	    !read_user(&space_bytes, sizeof(space_bytes), at + 4) || space_bytes > MOST_NAME_BYTES)
		return false;
	at += 8 + space_bytes + 8;
	if (!read_user(&name_bytes, sizeof(name_bytes), at) || name_bytes < NUMBER_DIGITS + 9 ||
	    name_bytes > MOST_NAME_BYTES || !read_user(&kind, sizeof(kind), at + 4) ||
	    kind != 0x617461645f646272) /* "rbd_data" */
		return false;
	at += 4 + name_bytes;
	if (!number_in(at - NUMBER_DIGITS, object) || !read_user(&count, sizeof(count), at))
		return false;
	at += sizeof(count);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MOST_STEPS && i < count; i++, at += sizeof(struct operation_step)) {
		struct operation_step step;

		if (!read_user(&step, sizeof(step), at))
			return false;
		if (step.opcode == STEP_WRITE || step.opcode == STEP_WRITE_ALL) {
			*offset = step.offset;
			*size = step.length;
			return true;
		}
	}
	return false;
}

static __always_inline int sent(__u64 message)
{
	struct thread *thread = thread_that_serves();
	__u64 object = 0, offset = 0, front;
	struct message_header header;
	__u32 size = 0;
	union event *e;

	if (!thread || !message_header_of(message, &header, POINT_librbd_sent) ||
	    header.type != OSD_OP || header.version != OPERATION_VERSION)
		return 0;
	front = front_of(message, &header);
	if (!front || !place_of(front, &size, &object, &offset))
		return 0;
	thread_announce(thread);
	e = emit_reserve(POINT_librbd_sent);
	if (!e)
		return 0;
	e->librbd_sent.number = header.number;
	e->librbd_sent.client = header.source;
	e->librbd_sent.object = object;
	e->librbd_sent.offset_bytes = offset;
	e->librbd_sent.size_bytes = size;
	e->librbd_sent.tgid = thread->tgid;
	e->librbd_sent.osd_number = -1;
	emit_submit(e, POINT_librbd_sent);
	return 0;
}

/* ProtocolV1::write_message(message, buffer, more): a thread of the messenger begins to send it. */
SEC("uprobe")
int librbd_sent_v1(struct pt_regs *ctx)
{
	return sent(PT_REGS_PARM2(ctx));
}

/* ProtocolV2::write_message(message, more) */
SEC("uprobe")
int librbd_sent_v2(struct pt_regs *ctx)
{
	return sent(PT_REGS_PARM2(ctx));
}

/* DispatchQueue::fast_dispatch(message): by reference to a pointer, as it was read */
SEC("uprobe")
int librbd_answered(struct pt_regs *ctx)
{
	struct thread *thread = thread_that_serves();
	struct message_header header;
	union event *e;

	if (!thread ||
	    !message_header_of(pointed_to(PT_REGS_PARM2(ctx)), &header, POINT_librbd_answered) ||
	    header.type != OSD_OPREPLY)
		return 0;
	thread_announce(thread);
	e = emit_reserve(POINT_librbd_answered);
	if (!e)
		return 0;
	e->librbd_answered.number = header.number;
	e->librbd_answered.client = 0;
	e->librbd_answered.object = 0;
	e->librbd_answered.offset_bytes = 0;
	e->librbd_answered.size_bytes = 0;
	e->librbd_answered.tgid = thread->tgid;
	e->librbd_answered.osd_number = header.source;
	emit_submit(e, POINT_librbd_answered);
	return 0;
}
