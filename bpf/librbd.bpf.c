// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Disks of Ceph that a program reaches by itself (librbd): what it asks of them, and the
 * operations on objects that the library makes of that, as they are sent and answered.
 */
#include "ceph.bpf.h"

/* Of struct Message, behind its header (53 bytes) and footer (21 bytes). */
#define MESSAGE_PAYLOAD 104
/* Of ceph::buffer::v15_2_0::raw, behind its virtual table and room for a node. */
#define RAW_DATA 32
/* Of an operation on the wire (MOSDOp, version 8), where its object's locator has its key. */
#define OPERATION_VERSION 8
#define LOCATOR_KEY 117
#define MOST_NAME_BYTES 64
#define MOST_STEPS 4
#define MOST_PARTS 64
#define MOST_IMAGES 1024
#define MOST_SPACE_BYTES 128
#define DATA_OF_DISK 0x617461645f646272 /* "rbd_data" */
/* FNV-1a */
#define FIRST_HASH 2166136261u
#define NEXT_HASH 16777619u
/* Of struct ImageCtx, in which is searched: it begins with all that can be configured. How the disk
 * lies on its objects is behind what these are called. */
#define IMAGE_BYTES (128 << 10)
#define SEARCHED_BYTES 1024 /* at once */
#define LAYOUT_BEHIND 4096
#define LEAST_OBJECT_BYTES (1 << 12)
#define MOST_OBJECT_BYTES (1 << 25)
#define TELL_AGAIN_NS 1000000000
#define STEP_WATCH 0x220f
#define STEP_READ 0x1201
#define STEP_READ_SPARSE 0x1205
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

/* Disks whose library's memory was searched, and where in it what is told of them is. */
struct known_image {
	__u64 told_ns;
	__u64 disk;         /* the end of its name, as a number */
	__u32 name, layout; /* 0: not found, and not searched for again */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MOST_IMAGES);
	__type(key, __u64);
	__type(value, struct known_image);
} librbd_images SEC(".maps");

/* What programs have called as what they asked for is answered, once each: the recorder attaches to
 * that. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 64);
	__type(value, struct library_callback);
} library_callbacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct library_callback);
	__type(value, __u8);
} known_callbacks SEC(".maps");

/* The completion that each thread waits for. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
} awaited SEC(".maps");

/* What a name of an object of a disk's says: "rbd_data.ID.NUMBER", "rbd_header.ID",
 * "journal_data.POOL.ID.NUMBER". */
struct object_name {
	__u64 number;       /* what it ends with, as one */
	__u32 before, last; /* hashes of what its last point is between */
	bool numbered;      /* it has more than one point: the last is not in front of its ID */
	bool data;          /* it is one of those that have what is written to the disk */
};

static __always_inline bool name_at(__u64 address, __u32 bytes, struct object_name *name)
{
	__u32 hash = FIRST_HASH;
	char text[MOST_NAME_BYTES] = {};
	__u64 kind;

	if (bytes < sizeof(kind) || bytes >= sizeof(text))
		return false;
	/* The verifier asks for a mask, which the compiler knows to be none. */
	__asm__ volatile("" : "+r"(bytes));
	if (!read_user(text, bytes & (sizeof(text) - 1), address))
		return false;
	*name = (struct object_name){};
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < sizeof(text) && text[i]; i++) {
		if (text[i] == '.') {
			name->numbered = name->before != 0;
			name->before = hash;
			hash = FIRST_HASH;
			name->number = 0;
			continue;
		}
		hash = (hash ^ (__u32)text[i]) * NEXT_HASH;
		name->number = name->number << 4 |
			       (text[i] >= 'a' ? text[i] - 'a' + 10 : (__u32)text[i] & 0xf);
	}
	__builtin_memcpy(&kind, text, sizeof(kind));
	name->data = kind == DATA_OF_DISK;
	name->last = hash;
	return name->before != 0;
}

/* Ceph's file_layout_t, which ends with the name of a space of its pool: most have none. */
struct image_layout {
	__u32 stripe_bytes, stripe_objects, object_bytes;
	__u64 pool;
	__u64 space, space_bytes;
};

#define SHORT_TEXT 16 /* what is shorter lies in a std::string itself, behind this */

/* The next five are functions of their own, for the verifier: each path through one would be one
 * more through who calls it. */

/* Whether a std::string "rbd_data.ID" is there. */
__noinline int librbd_name_at(__u64 address)
{
	__u64 text[2];

	return read_user(text, sizeof(text), address) && text[1] > sizeof(__u64) &&
	       text[1] < MOST_NAME_BYTES && pointed_to(text[0]) == DATA_OF_DISK;
}

/* Whether a layout is there. */
__noinline int librbd_layout_at(__u64 address)
{
	struct image_layout layout;
	__u32 object;

	if (!read_user(&layout, sizeof(layout), address))
		return false;
	object = layout.object_bytes;
	return object >= LEAST_OBJECT_BYTES && object <= MOST_OBJECT_BYTES &&
	       !(object & (object - 1)) && layout.stripe_objects && layout.stripe_bytes &&
	       layout.stripe_bytes <= object && layout.space_bytes < MOST_NAME_BYTES &&
	       (layout.space_bytes >= SHORT_TEXT ||
		layout.space == address + offsetof(struct image_layout, space) + SHORT_TEXT);
}

/* How far behind an address such a name is, of a part of what is searched; below 0: in none. */
__noinline int librbd_name_in(__u64 address)
{
#pragma clang loop unroll(disable)
	for (__u32 at = 0; at < SEARCHED_BYTES; at += sizeof(__u64)) {
		if (librbd_name_at(address + at))
			return at;
	}
	return -1;
}

/* Where in ImageCtx its object_prefix is; 0: not found. */
__noinline int librbd_find_name(__u64 image)
{
#pragma clang loop unroll(disable)
	for (__u32 at = 0; at < IMAGE_BYTES; at += SEARCHED_BYTES) {
		int found = librbd_name_in(image + at);

		if (found >= 0)
			return at + found;
	}
	return 0;
}

/* Where in what comes behind that its layout is; 0: not found. */
__noinline int librbd_find_layout(__u64 name)
{
#pragma clang loop unroll(disable)
	for (__u32 at = sizeof(__u64); at < LAYOUT_BEHIND; at += sizeof(__u64)) {
		if (librbd_layout_at(name + at))
			return at;
	}
	return 0;
}

static __always_inline bool read_image(__u64 image, const struct known_image *known,
				       struct object_name *name, struct image_layout *layout)
{
	__u64 text[2];

	return known->name && known->layout && read_user(text, sizeof(text), image + known->name) &&
	       name_at(text[0], text[1], name) && name->data &&
	       librbd_layout_at(image + known->name + known->layout) &&
	       read_user(layout, sizeof(*layout), image + known->name + known->layout);
}

/* The end of the name that is where one was found; another disk may have come to lie where one was. */
static __always_inline __u64 disk_at(__u64 image, const struct known_image *known)
{
	__u64 text[2], end[2] = {};

	if (!known->name || !read_user(text, sizeof(text), image + known->name) ||
	    !read_user(end, sizeof(end), text[0] + text[1] - sizeof(end)))
		return 0;
	return end[0] * NEXT_HASH ^ end[1];
}

static __always_inline void describe(const struct thread *thread, __u64 image)
{
	__u64 key = object_key(thread, image), now = bpf_ktime_get_ns();
	struct known_image *place = bpf_map_lookup_elem(&librbd_images, &key), known = {};
	struct image_layout layout = {};
	struct object_name name = {};
	union event *e;
	bool told;

	if (place)
		known = *place;
	if (place && (!known.layout || (now - known.told_ns < TELL_AGAIN_NS &&
					disk_at(image, &known) == known.disk)))
		return;
	told = read_image(image, &known, &name, &layout);
	if (!told) {
		known.name = librbd_find_name(image);
		known.layout = known.name ? librbd_find_layout(image + known.name) : 0;
		told = read_image(image, &known, &name, &layout);
	}
	known.told_ns = now;
	known.disk = disk_at(image, &known);
	bpf_map_update_elem(&librbd_images, &key, &known, BPF_ANY);
	e = told ? emit_reserve(POINT_librbd_image) : NULL;
	if (!e)
		return;
	e->librbd_image.image_key = key;
	e->librbd_image.image = name.last;
	e->librbd_image.object_bytes = layout.object_bytes;
	e->librbd_image.stripe_bytes = layout.stripe_bytes;
	e->librbd_image.stripe_objects = layout.stripe_objects;
	e->librbd_image.tgid = thread->tgid;
	emit_submit(e, POINT_librbd_image);
}

/* The current thread of a process that has a disk by the library.  Those of one of the workload's
 * were met before it was known to, as what they were then. */
static __noinline struct thread *library_thread(void)
{
	__u64 ids = current_ids();
	struct thread *thread = thread_of((__u32)ids), *first;

	if (thread && thread->kind > THREAD_TARGET)
		return thread;
	first = thread_of(ids >> 32);
	if (!first || !is_of_process(first->kind))
		return NULL;
	if (!thread)
		return thread_add(ids, ids >> 32, first->kind);
	thread_becomes(thread, first->kind);
	return thread;
}

static __always_inline int ask(__u64 image, __u64 offset, __u64 size, __u64 completion,
			       __u32 flushes)
{
	struct thread *thread = library_thread();
	union event *e;

	if (!thread)
		return 0;
	thread_announce(thread);
	describe(thread, image);
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

/* librbd::Image::aio_write(offset, size, data, completion): of what points to the image */
SEC("uprobe")
int librbd_write_of_object(struct pt_regs *ctx)
{
	return ask(pointed_to(PT_REGS_PARM1(ctx)), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx),
		   PT_REGS_PARM5(ctx), 0);
}

/* librbd::Image::aio_flush(completion) */
SEC("uprobe")
int librbd_flush_of_object(struct pt_regs *ctx)
{
	return ask(pointed_to(PT_REGS_PARM1(ctx)), 0, 0, PT_REGS_PARM2(ctx), 1);
}

/* rbd_discard() and others, which are neither a write of data nor a flush */
SEC("uprobe")
int librbd_other(struct pt_regs *ctx)
{
	const struct thread *thread = library_thread();

	(void)ctx;
	if (thread && thread->kind == THREAD_LIBRBD)
		not_seen(UNSEEN_DISCARDS, 0);
	return 0;
}

/* What a thread waits for itself has no completion. */
static __always_inline __u64 own_request(void)
{
	return (__u32)bpf_get_current_pid_tgid() << ALIGNED_BITS;
}

/* rbd_write(image, offset, size, data) */
SEC("uprobe")
int librbd_write_awaited(struct pt_regs *ctx)
{
	return ask(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), own_request(), 0);
}

/* rbd_flush(image) */
SEC("uprobe")
int librbd_flush_awaited(struct pt_regs *ctx)
{
	return ask(PT_REGS_PARM1(ctx), 0, 0, own_request(), 1);
}

static __always_inline int done(__u64 completion)
{
	struct thread *thread = library_thread();
	union event *e;

	if (!thread)
		return 0;
	thread_announce(thread);
	e = emit_reserve(POINT_librbd_done);
	if (!e)
		return 0;
	e->librbd_done.request_key = object_key(thread, completion);
	emit_submit(e, POINT_librbd_done);
	return 0;
}

/* A function of the program's, called as a request is answered, which the recorder attaches to; or
 * else rbd_aio_get_return_value(completion), librbd::RBD::AioCompletion::get_return_value(): of who
 * asks for that, as soon as it is answered */
SEC("uprobe")
int librbd_done(struct pt_regs *ctx)
{
	return done(PT_REGS_PARM1(ctx));
}

static __always_inline int call_back(__u64 function)
{
	struct thread *thread = library_thread();
	struct library_callback callback = {};
	__u8 known = 1;

	if (!thread || !function)
		return 0;
	callback.function = function;
	callback.pid = thread->tgid;
	if (bpf_map_update_elem(&known_callbacks, &callback, &known, BPF_NOEXIST))
		return 0;
	if (bpf_map_push_elem(&library_callbacks, &callback, 0))
		bpf_map_delete_elem(&known_callbacks, &callback);
	else
		ring_wake();
	return 0;
}

/* rbd_aio_create_completion(argument, function, completion) */
SEC("uprobe")
int librbd_completion(struct pt_regs *ctx)
{
	return call_back(PT_REGS_PARM2(ctx));
}

/* librbd::RBD::AioCompletion::AioCompletion(argument, function) */
SEC("uprobe")
int librbd_completion_of_object(struct pt_regs *ctx)
{
	return call_back(PT_REGS_PARM3(ctx));
}

/* rbd_aio_wait_for_complete(completion), librbd::RBD::AioCompletion::wait_for_complete() */
SEC("uprobe")
int librbd_await(struct pt_regs *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid(), completion = PT_REGS_PARM1(ctx);

	bpf_map_update_elem(&awaited, &ids, &completion, BPF_ANY);
	return 0;
}

SEC("uretprobe")
int librbd_done_await(struct pt_regs *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid();
	const __u64 *completion = bpf_map_lookup_elem(&awaited, &ids);

	(void)ctx;
	return completion ? done(*completion) : 0;
}

SEC("uretprobe")
int librbd_done_awaited(struct pt_regs *ctx)
{
	(void)ctx;
	return done(own_request());
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

/* What an operation writes of a disk, or else reads. */
struct operation {
	struct object_name name;
	__u64 offset;
	__u32 size; /* 0: nothing of it */
	bool reads;
};

/* False: it has another form than is known. */
static __always_inline bool operation_at(__u64 front, struct operation *operation)
{
	struct object_name *name = &operation->name;
	__u32 key_bytes, space_bytes, name_bytes;
	__u64 at = front + LOCATOR_KEY;
	__u16 count, first;

	if (!read_user(&key_bytes, sizeof(key_bytes), at) || key_bytes ||
	    !read_user(&space_bytes, sizeof(space_bytes), at + 4) || space_bytes > MOST_SPACE_BYTES)
		return false;
	at += 8 + space_bytes + 8;
	if (!read_user(&name_bytes, sizeof(name_bytes), at) || !name_at(at + 4, name_bytes, name))
		return false;
	at += 4 + name_bytes;
	if (!read_user(&count, sizeof(count), at))
		return false;
	at += sizeof(count);
	/* That it still watches its header, nobody waits for. */
	if (!name->data)
		return !read_user(&first, sizeof(first), at) || first != STEP_WATCH;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MOST_STEPS && i < count; i++, at += sizeof(struct operation_step)) {
		struct operation_step step;

		if (!read_user(&step, sizeof(step), at))
			return false;
		operation->reads = step.opcode == STEP_READ || step.opcode == STEP_READ_SPARSE;
		if (operation->reads || step.opcode == STEP_WRITE ||
		    step.opcode == STEP_WRITE_ALL) {
			operation->offset = step.offset;
			operation->size = step.length;
			break;
		}
	}
	return true;
}

static __always_inline int sent(__u64 message)
{
	struct thread *thread = library_thread();
	struct operation operation = {};
	struct message_header header;
	__u32 point;
	union event *e;
	__u64 front;

	if (!thread || !message_header_of(message, &header, POINT_librbd_sent) ||
	    header.type != OSD_OP || header.version != OPERATION_VERSION)
		return 0;
	front = front_of(message, &header);
	if (!front || !operation_at(front, &operation))
		return 0;
	thread_announce(thread);
	point = operation.reads ? POINT_librbd_sent_read : POINT_librbd_sent;
	e = emit_reserve(point);
	if (!e)
		return 0;
	e->librbd_sent.number = header.number;
	e->librbd_sent.client = header.source;
	e->librbd_sent.object = operation.name.data ? operation.name.number : 0;
	e->librbd_sent.offset_bytes = operation.offset;
	e->librbd_sent.size_bytes = operation.size;
	e->librbd_sent.tgid = thread->tgid;
	e->librbd_sent.osd_number = -1;
	e->librbd_sent.image =
		operation.name.numbered ? operation.name.before : operation.name.last;
	emit_submit(e, point);
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
	struct thread *thread = library_thread();
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
	e->librbd_answered.image = 0;
	emit_submit(e, POINT_librbd_answered);
	return 0;
}
