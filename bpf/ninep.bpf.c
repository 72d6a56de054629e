// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The client of 9p, by which a guest's kernel has files of its host: each request and its answer
 * passes one point of the kernel as the bytes of its message.  Who asks waits for the answer, and
 * finds it itself: both are told by the same thread.  A request is
 * known by its address, which both are part of.
 */
#include <linux/errno.h>

#include "ninep.bpf.h"
#include "stand_in.bpf.h"
#include "syscall.bpf.h"

#include <bpf/bpf_tracing.h>

#define V9FS_MAGIC 0x01021997

/* enum p9_msg_t of net/9p/9p.h: an answer is the odd number behind its request's. */
#define P9_RLERROR 7
#define P9_TREAD 116
#define P9_TWRITE 118

#define MAX_ASKED 4096

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct p9_fcall {
	unsigned char *sdata;
};

struct p9_req_t {
	struct p9_fcall tc; /* the message, and its answer */
	struct p9_fcall rc;
};

struct p9_qid {
	__u64 path;
};

struct netfs_inode {
	struct inode inode;
};

/* The inode, which netfs begins with, was the last member before Linux 874c8ca1e60b (in v5.19). */
struct v9fs_inode {
	struct netfs_inode netfs;
	struct p9_qid qid;
};

#pragma clang attribute pop

/* How each message begins, and behind it each kind (little-endian, unaligned). */
struct message {
	__u32 length;
	__u8 type;
	__u16 tag;
	union {
		struct {
			__u32 fid;
			__u64 offset_bytes;
			__u32 size_bytes;
		} __attribute__((packed)) asked;
		__u32 done; /* so many bytes, or why not */
	};
} __attribute__((packed));

struct ninep_asked {
	__u64 send_ns;
	__u64 offset_bytes;
	__u64 type;
};

/* Under way, by the address of the client's own. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_ASKED);
	__type(key, __u64);
	__type(value, struct ninep_asked);
} ninep_requests SEC(".maps");

bool ninep_used = false;

bool ninep_is_asked(__u64 request_key)
{
	return bpf_map_lookup_elem(&ninep_requests, &request_key);
}

/* Whether the call is for one file, that the thread's state tells. */
static __always_inline bool call_has_file(const struct thread *thread)
{
	return thread->enter_ns && thread->call != CALL_SYNC && thread->call != CALL_SYNCFS &&
	       (thread->call < CALL_IO_SUBMIT || thread->call > CALL_IO_URING_ENTER);
}

/* As the server numbers the file that the current call is for; 0: it is not known, or none. */
static __always_inline __u64 path_of(const struct thread *thread)
{
	struct file *file = (struct file *)thread->file_key;
	struct inode *inode = file ? PEEK(file, f_inode) : NULL;
	struct super_block *sb = inode ? PEEK(inode, i_sb) : NULL;

	if (!sb || PEEK(sb, s_magic) != V9FS_MAGIC ||
	    !bpf_core_field_exists(struct v9fs_inode, netfs))
		return 0;
	return BPF_CORE_READ((struct v9fs_inode *)inode, qid.path);
}

static __always_inline int error_of(__u64 type, const struct message *message)
{
	if (message->type == P9_RLERROR)
		return -(int)message->done;
	return message->type == type + 1 ? 0 : -EIO;
}

static __always_inline int asked(__u64 request_key, const struct message *message)
{
	struct thread *thread = thread_of(current_tid());
	struct ninep_asked asked = { .type = message->type };

	if (!thread || !thread_at_work(thread))
		return 0;
	if (message->type == P9_TWRITE || message->type == P9_TREAD)
		asked.offset_bytes = message->asked.offset_bytes;
	asked.send_ns = bpf_ktime_get_ns();
	ninep_used = true;
	bpf_map_update_elem(&ninep_requests, &request_key, &asked, BPF_ANY);
	return 0;
}

static __always_inline int answered(__u64 request_key, const struct message *message)
{
	struct ninep_asked *found = bpf_map_lookup_elem(&ninep_requests, &request_key), asked;
	struct thread *thread = thread_of(current_tid());
	bool moved;
	union event *e;

	if (!found)
		return 0;
	asked = *found;
	bpf_map_delete_elem(&ninep_requests, &request_key);
	e = thread ? emit_reserve(POINT_ninep_request) : NULL;
	if (!e)
		return 0;
	moved = asked.type == P9_TWRITE || asked.type == P9_TREAD;
	e->ninep_request.request_key = request_key;
	e->ninep_request.send_ns = asked.send_ns;
	e->ninep_request.offset_bytes = asked.offset_bytes;
	e->ninep_request.path = call_has_file(thread) ? path_of(thread) : 0;
	e->ninep_request.dev = call_has_file(thread) ? thread->dev : 0;
	e->ninep_request.error = error_of(asked.type, message);
	e->ninep_request.size_bytes = moved && !e->ninep_request.error ? message->done : 0;
	e->ninep_request.tag = message->tag;
	e->ninep_request.type = asked.type;
	emit_submit(e, POINT_ninep_request);
	return 0;
}

/* Any message, as it is: once it is made, or has come. */
PROGRAM("tp_btf/9p_protocol_dump", ninep_message, __u64 *ctx)
{
	struct p9_fcall *made = ARGUMENT(struct p9_fcall *, 1);
	struct message message = {};
	unsigned char *bytes;
	__u64 key;

	if (!made)
		return 0;
	bytes = made->sdata;
	if (bpf_probe_read_kernel(&message, sizeof(message), bytes))
		return 0;
	key = argument_key(ctx, 1);
	if (message.type & 1)
		return answered(key - bpf_core_field_offset(struct p9_req_t, rc), &message);
	return asked(key - bpf_core_field_offset(struct p9_req_t, tc), &message);
}
