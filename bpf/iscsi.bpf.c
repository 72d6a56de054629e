// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An initiator's commands of iSCSI: handed to the connection, answered.  Their only tracepoints are
 * texts for who debugs; the number that both ends know a command by is libiscsi's own.
 */
#include "block.bpf.h"
#include "socket.bpf.h"
#include "stand_in.bpf.h"

#define OPCODE 0x3f /* of the first byte of a header */
#define SCSI_COMMAND 0x01
#define DATA_OUT 0x05
#define SCSI_RESPONSE 0x21
#define DATA_IN 0x25       /* the last of what was read, with the command's status */
#define TASK_NUMBER 0x1fff /* of a tag: ISCSI_ITT_MASK */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct iscsi_hdr {
	__u8 opcode;
	__be32 itt;
};

struct iscsi_task {
	struct iscsi_hdr *hdr;
	struct scsi_cmnd *sc;
	struct iscsi_conn *conn;
};

struct iscsi_session {
	int cmds_max;
	struct iscsi_task **cmds;
};

struct iscsi_conn {
	void *dd_data;
	struct iscsi_session *session;
};

struct iscsi_tcp_conn {
	void *dd_data;
};

struct iscsi_sw_tcp_conn {
	struct socket *sock;
};

#pragma clang attribute pop

static __always_inline struct sock *socket_of(struct iscsi_task *task)
{
	struct iscsi_tcp_conn *transport = BPF_CORE_READ(task, conn, dd_data);
	struct iscsi_sw_tcp_conn *connection = PEEK(transport, dd_data);

	return BPF_CORE_READ(connection, sock, sk);
}

static __always_inline struct request *request_of(struct iscsi_task *task)
{
	struct scsi_cmnd *command = PEEK(task, sc);

	/* None of a session's own. */
	return command ? (void *)command - bpf_core_type_size(struct request) : NULL;
}

static __always_inline int command_emit(struct iscsi_task *task, __be32 itt, struct sock *socket,
					__u32 point)
{
	struct request *rq = request_of(task);
	__u32 dev = rq ? recorded_disk_of(rq) : 0;
	union event *e = dev ? emit_reserve(point) : NULL;

	if (!e)
		return 0;
	e->iscsi_sent.request_key = (__u64)rq;
	e->iscsi_sent.dev = dev;
	e->iscsi_sent.itt = bpf_ntohl(itt);
	e->iscsi_sent.connection = connection_of(socket);
	e->iscsi_sent.ends = ends_of_socket(socket);
	emit_submit(e, point);
	return 0;
}

/* A PDU goes to the connection, of a command with what data goes with that; once more where that
 * was full, and each time that the target asks for more data.  The network's own work for it may be
 * done by this very thread, or later by others. */
PROGRAM("fentry/iscsi_sw_tcp_pdu_xmit", iscsi_sent, __u64 *ctx)
{
	struct iscsi_task *task = (void *)argument_key(ctx, 0);
	struct iscsi_hdr *header = PEEK(task, hdr);

	if ((PEEK(header, opcode) & OPCODE) != SCSI_COMMAND)
		return 0;
	return command_emit(task, PEEK(header, itt), socket_of(task), POINT_iscsi_sent);
}

/* All of it is there. Its sender still has the connection: nothing else was handed over. */
PROGRAM("fexit/iscsi_sw_tcp_pdu_xmit", iscsi_stream, __u64 *ctx)
{
	struct iscsi_task *task = (void *)argument_key(ctx, 0);
	struct iscsi_hdr *header = PEEK(task, hdr);
	struct request *rq = request_of(task);
	struct sock *socket;

	if ((int)ctx[1] || (PEEK(header, opcode) & OPCODE) != SCSI_COMMAND || !rq ||
	    !recorded_disk_of(rq))
		return 0;
	socket = socket_of(task);
	if (!socket)
		return 0;
	return stream_emit(POINT_iscsi_stream, PEEK(header, itt), socket, connection_of(socket),
			   ends_of_socket(socket));
}

/* A command's header is its data's as soon as some of that went behind it. */
static __always_inline int task_emit(struct iscsi_task *task, __u32 point)
{
	struct iscsi_hdr *header = PEEK(task, hdr);
	__u8 opcode = PEEK(header, opcode) & OPCODE;

	if (opcode != SCSI_COMMAND && opcode != DATA_OUT)
		return 0;
	return command_emit(task, PEEK(header, itt), NULL, point);
}

/* Its target asks for more data of it, which a worker hands over. */
PROGRAM("fentry/iscsi_requeue_task", iscsi_asked, __u64 *ctx)
{
	return task_emit((void *)argument_key(ctx, 0), POINT_iscsi_asked);
}

/* All PDUs that there were to send of it are with the connection: itself, and what goes with it or
 * was asked for. */
PROGRAM("fexit/iscsi_tcp_task_xmit", iscsi_handed, __u64 *ctx)
{
	return (int)ctx[1] ? 0 : task_emit((void *)argument_key(ctx, 0), POINT_iscsi_handed);
}

/* Of any transport, of whose connections nothing is known here. */
PROGRAM("fentry/iscsi_complete_pdu", iscsi_answered, __u64 *ctx)
{
	struct iscsi_conn *connection = (void *)argument_key(ctx, 0);
	struct iscsi_hdr *header = (void *)argument_key(ctx, 1);
	struct iscsi_session *session = PEEK(connection, session);
	struct iscsi_task *task = NULL;
	__be32 itt = PEEK(header, itt);
	__u32 number = itt & TASK_NUMBER;
	__u8 opcode = PEEK(header, opcode) & OPCODE;

	if ((opcode != SCSI_RESPONSE && opcode != DATA_IN) ||
	    number >= (__u32)PEEK(session, cmds_max))
		return 0;
	bpf_probe_read_kernel(&task, sizeof(task), PEEK(session, cmds) + number);
	return command_emit(task, itt, NULL, POINT_iscsi_answered);
}
