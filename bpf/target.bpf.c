// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel's own SCSI target, for iSCSI: a command there, carried out, complete, answered.  A
 * connection's receiving thread carries its commands out: what that does meanwhile is theirs.
 */
#include "socket.bpf.h"
#include "stand_in.bpf.h"
#include "target.bpf.h"

#define SCSI_COMMAND 0x01 /* of iSCSI; these are of SCSI: */
#define WRITE_6 0x0a
#define WRITE_10 0x2a
#define WRITE_12 0xaa
#define WRITE_16 0x8a
#define WRITE_VERIFY_10 0x2e
#define WRITE_VERIFY_16 0x8e
#define WRITE_SAME_10 0x41
#define WRITE_SAME_16 0x93
#define UNMAP 0x42
#define SYNCHRONIZE_CACHE_10 0x35
#define SYNCHRONIZE_CACHE_16 0x91
#define READ_6 0x08
#define READ_10 0x28
#define READ_12 0xa8
#define READ_16 0x88
#define FUA 0x08   /* of a write's second byte, but WRITE_6's */
#define ASYNC 0x08 /* of a file's flags: FDBD_HAS_ASYNC_IO, past the page cache */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct target_core_fabric_ops {
	const char *fabric_name;
};

struct se_dev_attrib {
	__u32 block_size;
};

struct target_backend_ops {
	char name[16];
};

struct se_device {
	struct se_dev_attrib dev_attrib;
	const struct target_backend_ops *transport;
};

/* Of a module of its own, which a target that has no file does not load. */
struct fd_dev {
	struct se_device dev;
	__u32 fbd_flags;
	struct file *fd_file;
};

struct se_cmd {
	__u32 data_length;
	__u64 orig_fe_lun;
	struct se_device *se_dev;
	const struct target_core_fabric_ops *se_tfo;
	unsigned char *t_task_cdb;
	unsigned long long t_task_lba;
};

/* The initiator's types have these names without the t, and before v5.19 the target's had, too:
 * of such a kernel nothing is told. */
struct iscsit_conn {
	struct socket *sock;
};

struct iscsit_cmd {
	__u8 iscsi_opcode;
	__be32 init_task_tag;
	__u32 r2t_sn;
	struct iscsit_conn *conn;
	struct se_cmd se_cmd;
};

#pragma clang attribute pop

static __always_inline __u8 opcode_of(struct se_cmd *command)
{
	__u8 opcode = 0;

	bpf_probe_read_kernel(&opcode, sizeof(opcode), PEEK(command, t_task_cdb));
	return opcode;
}

/* Whether the command writes, discards, or makes durable. */
static __always_inline bool writes(__u8 opcode)
{
	switch (opcode) {
	case WRITE_6:
	case WRITE_10:
	case WRITE_12:
	case WRITE_16:
	case WRITE_VERIFY_10:
	case WRITE_VERIFY_16:
	case WRITE_SAME_10:
	case WRITE_SAME_16:
	case UNMAP:
	case SYNCHRONIZE_CACHE_10:
	case SYNCHRONIZE_CACHE_16:
		return true;
	}
	return false;
}

static __always_inline bool reads_data(__u8 opcode)
{
	return opcode == READ_6 || opcode == READ_10 || opcode == READ_12 || opcode == READ_16;
}

union name {
	char text[8];
	__u64 number;
};

static __always_inline bool is_called(const char *text, const union name *wanted)
{
	__u64 name = 0;

	bpf_probe_read_kernel_str(&name, sizeof(name), text);
	return name == wanted->number;
}

static __always_inline bool is_of_iscsi(struct se_cmd *command)
{
	const union name wanted = { "iSCSI" };

	return is_called(BPF_CORE_READ(command, se_tfo, fabric_name), &wanted);
}

static __always_inline bool is_of_interest(struct se_cmd *command)
{
	__u8 opcode;

	if (!bpf_core_type_exists(struct iscsit_cmd))
		return false;
	opcode = opcode_of(command);
	return (writes(opcode) || (filter.reads && reads_data(opcode))) && is_of_iscsi(command);
}

/* A disk is of a file, not of a disk or of memory: which one is read is told. */
static __always_inline void read_tell(struct se_cmd *command)
{
	const union name wanted = { "fileio" };
	struct se_device *device = PEEK(command, se_dev);
	const struct target_backend_ops *backend_ops = PEEK(device, transport);
	struct file *file = NULL;
	struct fd_dev *backend;
	bool direct = false;

	if (!reads_data(opcode_of(command)) || !is_called(backend_ops->name, &wanted))
		return;
	if (bpf_core_type_exists(struct fd_dev)) {
		backend = (void *)device - bpf_core_field_offset(struct fd_dev, dev);
		file = PEEK(backend, fd_file);
		direct = PEEK(backend, fbd_flags) & ASYNC;
	}
	target_file_tell(file, (__u64)command, direct);
}

static __always_inline struct iscsit_cmd *whole_of(struct se_cmd *command)
{
	return (void *)command - bpf_core_field_offset(struct iscsit_cmd, se_cmd);
}

static __always_inline bool has_fua(struct se_cmd *command)
{
	__u8 head[2] = {};

	bpf_probe_read_kernel(&head, sizeof(head), PEEK(command, t_task_cdb));
	return head[0] != WRITE_6 && head[1] & FUA;
}

static __always_inline struct sock *socket_of(struct se_cmd *command)
{
	return BPF_CORE_READ(whole_of(command), conn, sock, sk);
}

/* Where it writes is known once it is parsed. */
static __always_inline int command_emit(struct se_cmd *command, __u32 point)
{
	bool parsed = point == POINT_target_cmd_complete;
	struct iscsit_cmd *whole = whole_of(command);
	struct sock *socket = socket_of(command);
	__u8 opcode = opcode_of(command);
	bool flush = opcode == SYNCHRONIZE_CACHE_10 || opcode == SYNCHRONIZE_CACHE_16;
	/* Before the event has its own time. */
	__u64 ready_ns = parsed ? 0 : socket_came_ns(socket);
	union event *e = emit_reserve(point);

	if (!e)
		return 0;
	e->target_cmd_complete.command_key = (__u64)command;
	e->target_cmd_complete.ready_ns = ready_ns;
	e->target_cmd_complete.offset_bytes = 0;
	if (parsed)
		e->target_cmd_complete.offset_bytes =
			PEEK(command, t_task_lba) *
			BPF_CORE_READ(command, se_dev, dev_attrib.block_size);
	e->target_cmd_complete.size_bytes = flush ? 0 : PEEK(command, data_length);
	e->target_cmd_complete.itt = bpf_ntohl(PEEK(whole, init_task_tag));
	e->target_cmd_complete.connection = connection_served(socket);
	e->target_cmd_complete.ends = ends_served(socket);
	e->target_cmd_complete.lun = PEEK(command, orig_fe_lun);
	e->target_cmd_complete.r2t_count = PEEK(whole, r2t_sn);
	e->target_cmd_complete.opcode = opcode;
	e->target_cmd_complete.fua = !flush && has_fua(command);
	emit_submit(e, point);
	return 0;
}

/* From its first command on its thread is watched: that may wait for the data of it. */
PROGRAM("tp_btf/target_sequencer_start", target_begin, __u64 *ctx)
{
	struct se_cmd *command = (void *)argument_key(ctx, 0);
	struct thread *thread;
	__u64 key;

	if (!is_of_interest(command))
		return 0;
	/* What comes in on its connection is noted from now on. */
	key = (__u64)socket_of(command);
	if (key)
		transport_take(key, bpf_ktime_get_ns());
	thread = server_admit(DUTY_target);
	if (thread)
		thread_announce(thread);
	return command_emit(command, POINT_target_sequencer_start);
}

PROGRAM("tp_btf/target_cmd_complete", target_end, __u64 *ctx)
{
	struct se_cmd *command = (void *)argument_key(ctx, 0);

	return is_of_interest(command) ? command_emit(command, POINT_target_cmd_complete) : 0;
}

static __always_inline bool work_emit(__u32 point, __u64 command, __u64 ready_ns)
{
	union event *e = emit_reserve(point);

	if (!e)
		return false;
	e->target_work.request_key = command;
	e->target_work.ready_ns = ready_ns;
	emit_submit(e, point);
	return true;
}

static __always_inline void work_tell(struct thread *thread, __u64 command, __u64 ready_ns)
{
	if (work_emit(POINT_target_work, command, ready_ns))
		thread->request_key = command;
}

/* All of its data is there. */
PROGRAM("fentry/target_execute_cmd", target_execute, __u64 *ctx)
{
	struct se_cmd *command = (void *)argument_key(ctx, 0);
	struct thread *thread;

	if (!is_of_interest(command))
		return 0;
	thread = server_admit(DUTY_target);
	/* Where it hands commands on (submit_type), a kernel worker does it. */
	if (!thread) {
		thread_serve();
		thread = thread_of(current_tid());
	}
	if (!thread)
		return 0;
	thread_announce(thread);
	work_tell(thread, (__u64)command, socket_came_ns(socket_of(command)));
	read_tell(command);
	return 0;
}

/* The command itself may be complete by now, and its place another's. */
PROGRAM("fexit/target_execute_cmd", target_rest, __u64 *ctx)
{
	struct thread *thread = thread_of(current_tid());

	(void)ctx;
	if (thread && thread->kind > THREAD_TARGET && thread->request_key)
		work_tell(thread, 0, 0);
	return 0;
}

/* Of a command of which there is more to come than came unasked, and again of each burst. */
PROGRAM("fentry/iscsit_build_r2ts_for_cmd", target_ask, __u64 *ctx)
{
	struct iscsit_cmd *whole = (void *)argument_key(ctx, 1);
	struct se_cmd *command = &whole->se_cmd;

	if (is_of_interest(command))
		work_emit(POINT_target_asked, (__u64)command, socket_came_ns(socket_of(command)));
	return 0;
}

/* All of a PDU is with the connection, be it the response, or one that asks for more data. */
PROGRAM("fexit/iscsit_xmit_pdu", target_answer, __u64 *ctx)
{
	struct iscsit_cmd *whole = (void *)argument_key(ctx, 1);
	struct se_cmd *command = &whole->se_cmd;
	union event *e;

	if (PEEK(whole, iscsi_opcode) != SCSI_COMMAND || !is_of_interest(command))
		return 0;
	e = emit_reserve(POINT_target_sent);
	if (!e)
		return 0;
	e->target_sent.command_key = (__u64)command;
	e->target_sent.sequence = stream_end(BPF_CORE_READ(whole, conn, sock, sk));
	emit_submit(e, POINT_target_sent);
	return 0;
}
