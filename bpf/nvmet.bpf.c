// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The target of NVMe over TCP: a command there, carried out, complete.  While one of its workers
 * carries one out, what that does is the command's.  A command is known by the place of the control
 * block that a file is written by, to which whoever syncs after a direct write is led (work.bpf.h).
 */
#include "file.bpf.h"
#include "nvme.bpf.h"
#include "stand_in.bpf.h"
#include "target.bpf.h"
#include "work.bpf.h"

#define NVMF_TRTYPE_TCP 3

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nvmet_ctrl {
	uuid_t hostid;
	__u16 cntlid;
};

struct nvmet_sq {
	struct nvmet_ctrl *ctrl;
	__u16 qid;
};

struct nvmet_ns {
	struct block_device *bdev;
	struct file *file;
	__u32 blksize_shift;
};

struct nvmet_fabrics_ops {
	unsigned int type;
};

struct nvmet_req {
	struct nvme_command *cmd;
	struct nvmet_sq *sq;
	struct nvmet_ns *ns;
	union {
		struct {
			struct kiocb iocb;
			struct work_struct work;
		} f;
	};
	const struct nvmet_fabrics_ops *ops;
};

struct nvmet_tcp_cmd {
	struct nvmet_req req;
	__u32 offset;
};

struct nvmet_tcp_queue {
	struct socket *sock;
	struct nvmet_sq nvme_sq;
	_Bool hdr_digest;
};

#pragma clang attribute pop

static __always_inline __u64 key_of(struct nvmet_req *req)
{
	return (__u64)req + bpf_core_field_offset(struct nvmet_req, f.iocb);
}

static __always_inline bool is_written_by(__u8 opcode)
{
	return opcode == NVME_WRITE || opcode == NVME_FLUSH || opcode == NVME_WRITE_ZEROES ||
	       opcode == NVME_DSM;
}

/* A command that writes, makes durable, or reads where that is recorded, and came by TCP; none of
 * a controller's own. */
static __always_inline bool is_of_interest(struct nvmet_req *req)
{
	__u8 opcode;

	if (!bpf_core_type_exists(struct nvmet_tcp_queue) ||
	    BPF_CORE_READ(req, ops, type) != NVMF_TRTYPE_TCP || !BPF_CORE_READ(req, sq, qid))
		return false;
	opcode = BPF_CORE_READ(req, cmd, common.opcode);
	return is_written_by(opcode) || (filter.reads && opcode == NVME_READ);
}

static __always_inline struct nvmet_tcp_queue *queue_of(struct nvmet_sq *sq)
{
	return (void *)sq - bpf_core_field_offset(struct nvmet_tcp_queue, nvme_sq);
}

static __always_inline struct sock *socket_of(struct nvmet_sq *sq)
{
	struct nvmet_tcp_queue *queue = queue_of(sq);

	return BPF_CORE_READ(queue, sock, sk);
}

/* Where a namespace lies: its disk, or its file's superblock; 0: there is none. */
static __always_inline __u32 dev_of(struct nvmet_ns *ns)
{
	struct block_device *bdev;

	if (!ns)
		return 0;
	bdev = PEEK(ns, bdev);
	return bdev ? disk_dev_of(PEEK(bdev, bd_disk))
		    : BPF_CORE_READ(ns, file, f_inode, i_sb, s_dev);
}

/* Of a command whose data, if that comes with it, is read next. */
static __always_inline __u64 command_came_ns(struct sock *socket)
{
	struct transport *transport = transport_find((__u64)socket);
	__u64 came_ns = transport_came_ns(transport, socket);

	if (transport)
		transport->command_ns = came_ns;
	return came_ns;
}

static __always_inline void emit_command(struct nvmet_req *req, __u32 point)
{
	struct nvme_command *command = PEEK(req, cmd);
	struct nvmet_sq *sq = PEEK(req, sq);
	struct nvmet_ctrl *controller = PEEK(sq, ctrl);
	struct sock *socket = socket_of(sq);
	/* A command that begins does not know its namespace. */
	struct nvmet_ns *ns = point == POINT_nvmet_req_complete ? PEEK(req, ns) : NULL;
	__u8 opcode = PEEK(command, common.opcode);
	bool placed =
		ns && (opcode == NVME_WRITE || opcode == NVME_WRITE_ZEROES || opcode == NVME_READ);
	__u32 shift = placed ? PEEK(ns, blksize_shift) & 63 : 0;
	/* Before the event has its own time: more may come in meanwhile. */
	__u64 ready_ns = point == POINT_nvmet_req_init ? command_came_ns(socket) : 0;
	union event *e = emit_reserve(point);
	uuid_t id = {};

	if (!e)
		return;
	bpf_core_read(&id, sizeof(id), &controller->hostid);
	e->nvmet_req_init.request_key = key_of(req);
	e->nvmet_req_init.ready_ns = ready_ns;
	e->nvmet_req_init.offset_bytes = placed ? PEEK(command, rw.slba) << shift : 0;
	e->nvmet_req_init.size_bytes = placed ? ((__u32)PEEK(command, rw.length) + 1) << shift : 0;
	e->nvmet_req_init.dev = dev_of(ns);
	e->nvmet_req_init.connection = connection_served(socket);
	e->nvmet_req_init.ends = ends_served(socket);
	e->nvmet_req_init.host = host_of(&id);
	e->nvmet_req_init.controller = PEEK(controller, cntlid);
	e->nvmet_req_init.queue = PEEK(sq, qid);
	e->nvmet_req_init.command = PEEK(command, common.command_id);
	e->nvmet_req_init.opcode = opcode;
	e->nvmet_req_init.failed = 0;
	emit_submit(e, point);
}

PROGRAM("tp_btf/nvmet_req_init", nvmet_begin, __u64 *ctx)
{
	struct nvmet_req *req = (void *)argument_key(ctx, 0);

	if (is_of_interest(req))
		emit_command(req, POINT_nvmet_req_init);
	return 0;
}

PROGRAM("tp_btf/nvmet_req_complete", nvmet_end, __u64 *ctx)
{
	struct nvmet_req *req = (void *)argument_key(ctx, 0);

	if (is_of_interest(req))
		emit_command(req, POINT_nvmet_req_complete);
	return 0;
}

static __always_inline int emit_part(struct nvmet_req *req, __u32 point)
{
	union event *e = is_of_interest(req) ? emit_reserve(point) : NULL;

	if (!e)
		return 0;
	e->nvmet_answer.request_key = key_of(req);
	emit_submit(e, point);
	return 0;
}

/* Of a PDU that may be sent in several goes, the first one. */
static __always_inline int emit_begun(__u64 *ctx, __u32 point)
{
	struct nvmet_tcp_cmd *command = (void *)argument_key(ctx, 0);

	return PEEK(command, offset) ? 0 : emit_part(&command->req, point);
}

/*
 * A worker begins to ask for a command's data (R2T), and goes on with that later if the socket does
 * not take it whole.  In a kernel whose compiler has put this into its caller it is not told.
 */
PROGRAM("fentry/nvmet_try_send_r2t", nvmet_asked, __u64 *ctx)
{
	return emit_begun(ctx, POINT_nvmet_asked);
}

/* Where in the stream a response ends that is about to be sent. */
static __always_inline void tell_end(struct nvmet_req *req)
{
	struct nvmet_sq *sq = PEEK(req, sq);
	struct sock *socket;
	__u32 bytes = NVME_TCP_RESPONSE_BYTES;

	if (!filter.ports[0] || !is_of_interest(req))
		return;
	socket = socket_of(sq);
	if (!stream_is_plain(socket))
		return;
	if (PEEK(queue_of(sq), hdr_digest))
		bytes += NVME_TCP_DIGEST_BYTES;
	stream_emit_next(POINT_nvmet_stream, BPF_CORE_READ(req, cmd, common.command_id), socket,
			 bytes, connection_served(socket), ends_served(socket));
}

/* A worker begins to send the answer. */
PROGRAM("fentry/nvmet_setup_response_pdu", nvmet_answer, __u64 *ctx)
{
	struct nvmet_tcp_cmd *command = (void *)argument_key(ctx, 0);

	emit_part(&command->req, POINT_nvmet_answer);
	tell_end(&command->req);
	return 0;
}

/* What was read, which may be all of the answer; else as what asks for data. */
PROGRAM("fentry/nvmet_try_send_data_pdu", nvmet_answer_data, __u64 *ctx)
{
	return emit_begun(ctx, POINT_nvmet_answer);
}

PROGRAM("fentry/nvmet_tcp_data_ready", nvmet_ready, __u64 *ctx)
{
	return transport_ready(argument_key(ctx, 0), (void *)argument_key(ctx, 0));
}

/* Of what came with its command, only if that was later. */
static __always_inline void data_tell(struct nvmet_req *req, bool asked)
{
	struct sock *socket = socket_of(PEEK(req, sq));
	const struct transport *transport = transport_find((__u64)socket);
	__u64 ready_ns = transport_came_ns(transport, socket);
	union event *e;

	if (!asked && (!transport || ready_ns <= transport->command_ns))
		return;
	e = emit_reserve(POINT_nvmet_data);
	if (!e)
		return;
	e->nvmet_data.request_key = key_of(req);
	e->nvmet_data.ready_ns = ready_ns;
	e->nvmet_data.asked = asked;
	emit_submit(e, POINT_nvmet_data);
}

/* What a command is carried out on is watched from then on, and who does it is recorded. */
static __always_inline int works(__u64 request)
{
	struct nvmet_req *req = (void *)request;
	struct nvmet_ns *ns = PEEK(req, ns);
	struct thread *thread;
	struct file *file;
	__u8 opcode;

	if (!ns || !is_of_interest(req))
		return 0;
	if (!filter.device && !watch_of(dev_of(ns))) {
		if (PEEK(ns, bdev))
			watch_add(dev_of(ns), WATCH_DISK);
		else
			file_system_watch((__u64)BPF_CORE_READ(ns, file, f_inode, i_sb));
	}
	thread_serve();
	thread = thread_of(current_tid());
	if (thread)
		thread_works_on(thread, key_of(req), POINT_nvmet_work, 0);
	opcode = BPF_CORE_READ(req, cmd, common.opcode);
	if (opcode == NVME_WRITE)
		data_tell(req, BPF_CORE_READ(req, cmd, common.dptr.sgl.type) == NVME_SGL_ASKED_FOR);
	file = PEEK(ns, file);
	if (file && opcode == NVME_READ)
		target_file_tell(file, key_of(req), PEEK(file, f_flags) & O_DIRECT);
	return 0;
}

static __always_inline int works_on(__u64 work)
{
	return works(work - bpf_core_field_offset(struct nvmet_req, f.work));
}

/* The command itself may be complete by now, and its place another's. */
static __always_inline int rests(void)
{
	struct thread *thread = thread_of(current_tid());

	if (thread && thread->request_key)
		thread_works_on(thread, 0, POINT_nvmet_work, 0);
	return 0;
}

/* While such a function runs, its thread is at the command that it is given. */
#define CARRIES_OUT(name, function, begins)                 \
	PROGRAM("fentry/" #function, name, __u64 *ctx)      \
	{                                                   \
		return begins(argument_key(ctx, 0));        \
	}                                                   \
                                                            \
	PROGRAM("fexit/" #function, name##_end, __u64 *ctx) \
	{                                                   \
		(void)ctx;                                  \
		return rests();                             \
	}

CARRIES_OUT(nvmet_disk_write, nvmet_bdev_execute_rw, works)
CARRIES_OUT(nvmet_disk_flush, nvmet_bdev_execute_flush, works)
CARRIES_OUT(nvmet_disk_zero, nvmet_bdev_execute_write_zeroes, works)
CARRIES_OUT(nvmet_disk_discard, nvmet_bdev_execute_dsm, works)
CARRIES_OUT(nvmet_file_write, nvmet_file_execute_rw, works)
CARRIES_OUT(nvmet_file_buffered, nvmet_file_buffered_io_work, works_on)
CARRIES_OUT(nvmet_file_flush, nvmet_file_flush_work, works_on)
