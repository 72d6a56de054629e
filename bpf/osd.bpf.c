// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What an OSD of Ceph does with an operation: there, taken up by a thread, sent on to the other
 * OSDs that keep a copy, answered.
 */
#include "osd.bpf.h"

#define MOST_PEERS 8
#define PEER_IS_OSD 4

/* An element of std::vector<std::pair<int, Message *>>. */
struct addressed {
	__s32 peer;
	__u32 pad;
	__u64 message;
};

static __always_inline bool is_told(__u16 type)
{
	return type == OSD_OP || type == OSD_OPREPLY || type == OSD_REPOP || type == OSD_REPOPREPLY;
}

/* Which OSD this is, as the recorder found it when it attached this program. */
static __always_inline int number_of_osd(struct pt_regs *ctx)
{
	if (!bpf_helper_exists(get_attach_cookie))
		return -1;
	return (int)bpf_get_attach_cookie(ctx) - 1;
}

static __always_inline bool header_of(__u64 message, struct message_header *header, __u32 point)
{
	return message_header_of(message, header, point) && is_told(header->type);
}

static __always_inline void tell(struct pt_regs *ctx, const struct thread *thread, __u64 op_key,
				 __u64 message, const struct message_header *header, __u64 peer,
				 __u8 kind, __u32 point)
{
	union event *e = emit_reserve(point);

	if (!e)
		return;
	e->osd_message.op_key = op_key;
	e->osd_message.number = header->number;
	e->osd_message.peer = peer;
	e->osd_message.tgid = thread->tgid;
	e->osd_message.osd_number = number_of_osd(ctx);
	e->osd_message.type = header->type;
	e->osd_message.peer_kind = kind;
	e->osd_message.message_key = object_key(thread, message);
	emit_submit(e, point);
}

/* OpRequest::OpRequest(message, tracker): the message is there, and is made an operation. */
SEC("uprobe")
int osd_message(struct pt_regs *ctx)
{
	struct thread *thread = osd_thread();
	struct message_header header;

	if (thread && header_of(PT_REGS_PARM2(ctx), &header, POINT_osd_message))
		tell(ctx, thread, object_key(thread, PT_REGS_PARM1(ctx)), PT_REGS_PARM2(ctx),
		     &header, header.source, header.source_kind, POINT_osd_message);
	return 0;
}

static __always_inline void sent(struct pt_regs *ctx, struct thread *thread, __s32 peer,
				 __u64 message)
{
	struct message_header header;

	if (header_of(message, &header, POINT_osd_send))
		tell(ctx, thread, thread->request_key, message, &header, peer, PEER_IS_OSD,
		     POINT_osd_send);
}

/* OSDService::send_message_osd_cluster(peer, message, epoch) */
SEC("uprobe")
int osd_send(struct pt_regs *ctx)
{
	struct thread *thread = osd_thread();

	if (thread)
		sent(ctx, thread, PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx));
	return 0;
}

/* OSDService::send_message_osd_cluster(messages, epoch): a vector of peers and messages. */
SEC("uprobe")
int osd_send_all(struct pt_regs *ctx)
{
	struct thread *thread = osd_thread();
	__u64 range[2] = {};

	if (!thread || !read_user(range, sizeof(range), PT_REGS_PARM2(ctx)))
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MOST_PEERS && range[0] + i * sizeof(struct addressed) < range[1];
	     i++) {
		struct addressed to;

		if (read_user(&to, sizeof(to), range[0] + i * sizeof(to)))
			sent(ctx, thread, to.peer, to.message);
	}
	return 0;
}

/* OSD::dequeue_op(group, operation, handle): the second by reference to a pointer. */
SEC("uprobe")
int osd_work(struct pt_regs *ctx)
{
	struct thread *thread = osd_thread();
	__u64 op = thread ? pointed_to(PT_REGS_PARM3(ctx)) : 0;

	if (op)
		thread_works_on(thread, object_key(thread, op), POINT_osd_work, 0);
	return 0;
}

SEC("uretprobe")
int osd_rest(struct pt_regs *ctx)
{
	struct thread *thread = osd_thread();

	(void)ctx;
	if (thread && thread->request_key)
		thread_works_on(thread, 0, POINT_osd_work, 0);
	return 0;
}

/* PrimaryLogPG::log_op_stats(operation, bytes in, bytes out): just before it is answered. */
SEC("uprobe")
int osd_reply(struct pt_regs *ctx)
{
	struct thread *thread = osd_thread();
	union event *e;

	if (!thread)
		return 0;
	e = emit_reserve(POINT_osd_reply);
	if (!e)
		return 0;
	e->osd_reply.op_key = object_key(thread, PT_REGS_PARM2(ctx));
	e->osd_reply.size_bytes = PT_REGS_PARM3(ctx);
	emit_submit(e, POINT_osd_reply);
	return 0;
}

static __always_inline int written(struct pt_regs *ctx)
{
	struct thread *thread = osd_thread();
	struct message_header header;

	if (thread && header_of(PT_REGS_PARM2(ctx), &header, POINT_osd_written))
		tell(ctx, thread, 0, PT_REGS_PARM2(ctx), &header, 0, 0, POINT_osd_written);
	return 0;
}

/* ProtocolV1::write_message(message, buffer, more): a thread of the messenger begins to send it. */
SEC("uprobe")
int osd_written_v1(struct pt_regs *ctx)
{
	return written(ctx);
}

/* ProtocolV2::write_message(message, more) */
SEC("uprobe")
int osd_written_v2(struct pt_regs *ctx)
{
	return written(ctx);
}
