// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The NFS server: which calls its threads serve.  A thread stashes what it
 * learns of its call; the reply, encoded, emits one event.
 */
#include "file.bpf.h"
#include "rpc.bpf.h"
#include "stand_in.bpf.h"

#define NFS_V3 3
#define NFS_V4 4
#define NFSPROC3_COMMIT 21
#define NFSPROC4_COMPOUND 1
#define OP_COMMIT 5
#define MAX_OPERATIONS 8 /* looked at; COMMIT is the third */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct __kernel_sockaddr_storage {
	unsigned short ss_family;
};

struct svc_xprt {
	struct __kernel_sockaddr_storage xpt_local;
	struct __kernel_sockaddr_storage xpt_remote;
};

struct svc_sock {
	struct svc_xprt sk_xprt;
	struct sock *sk_sk;
};

struct svc_rqst {
	struct svc_xprt *rq_xprt;
	__be32 rq_xid;
	__u32 rq_vers;
	__u32 rq_proc;
	void *rq_argp;
};

struct svc_fh {
	struct dentry *fh_dentry;
};

struct nfsd4_commit {
	__u64 co_offset;
	__u32 co_count;
};

union nfsd4_op_u {
	struct nfsd4_commit commit;
};

struct nfsd4_op {
	__u32 opnum;
	union nfsd4_op_u u;
};

struct nfsd4_compoundargs {
	__u32 opcnt;
	struct nfsd4_op *ops;
};

struct nfsd3_commitargs {
	__u64 offset;
	__u32 count;
};

#pragma clang attribute pop

/* A socket's address of either family. */
struct socket_address {
	unsigned short family;
	__be16 port;
	__be32 ipv4; /* of IPv6: the flow */
	struct in6_addr ipv6;
};

/* A thread's scratch; the call's range and operation are in the thread's own fields. */
struct service {
	struct svc_rqst *rqst;
	__u64 enqueue_ns;
	__u64 dequeue_ns;
	__u64 receive_ns;
};

_Static_assert(sizeof(struct service) <= sizeof(((struct thread *)0)->scratch), "no room");

static __always_inline struct service *service_of(struct thread *thread)
{
	return (struct service *)thread->scratch;
}

/* The current thread, if it is one of the server's; NULL: it is not. */
static __always_inline struct thread *server_thread(void)
{
	struct thread *thread = thread_of(current_tid());

	return thread && thread->kind == THREAD_SERVER ? thread : NULL;
}

static __always_inline struct sock *socket_of(__u64 transport_key)
{
	struct svc_sock *outer;

	outer = (void *)transport_key - bpf_core_field_offset(struct svc_sock, sk_xprt);
	return PEEK(outer, sk_sk);
}

PROGRAM("tp_btf/svcsock_data_ready", svc_data_ready, __u64 *ctx)
{
	struct sock *socket = socket_of(argument_key(ctx, 0));

	return transport_ready((__u64)socket, socket);
}

PROGRAM("tp_btf/svc_xprt_dequeue", svc_dequeue, __u64 *ctx)
{
	struct thread *thread = server_admit(DUTY_nfsd);

	if (!thread)
		return 0;
	thread->call = 0;
	thread->offset_bytes = 0;
	thread->size_bytes = 0;
	service_of(thread)->rqst = ARGUMENT(struct svc_rqst *, 0);
	service_of(thread)->enqueue_ns = 0;
	service_of(thread)->receive_ns = 0;
	service_of(thread)->dequeue_ns = bpf_ktime_get_ns();
	return 0;
}

/* Some more of a call has been read: while it is, no other thread reads the next one. */
PROGRAM("tp_btf/svcsock_tcp_recv", svc_read, __u64 *ctx)
{
	struct thread *thread = server_thread();

	if (thread)
		service_of(thread)->enqueue_ns = socket_came_ns(socket_of(argument_key(ctx, 0)));
	return 0;
}

/* The whole call has been read. */
PROGRAM("tp_btf/svc_xdr_recvfrom", svc_receive, __u64 *ctx)
{
	struct thread *thread = server_thread();
	struct service *service;
	struct svc_rqst *rqst;

	(void)ctx;
	if (!thread)
		return 0;
	service = service_of(thread);
	rqst = service->rqst;
	service->receive_ns = bpf_ktime_get_ns();
	if (!service->enqueue_ns)
		service->enqueue_ns = socket_last_ns(socket_of((__u64)PEEK(rqst, rq_xprt)));
	if (service->dequeue_ns < service->enqueue_ns)
		service->dequeue_ns = service->enqueue_ns;
	return 0;
}

/* The server is about to write into the file that it has opened. */
PROGRAM("tp_btf/nfsd_write_opened", svc_write, __u64 *ctx)
{
	struct svc_fh *handle = ARGUMENT(struct svc_fh *, 1);
	struct thread *thread = server_thread();
	struct super_block *sb;
	__u32 bits;

	if (!handle || !thread)
		return 0;
	thread->call = NFS_WRITE;
	thread->offset_bytes = ctx[2];
	thread->size_bytes = ctx[3];
	sb = handle->fh_dentry->d_sb;
	bits = watch_of(sb->s_dev);
	if (!(bits & WATCH_FS) && !filter.device)
		file_system_watch(pointer_key(sb));
	return 0;
}

static __always_inline void commits(struct thread *thread, __u64 offset_bytes, __u32 size_bytes)
{
	thread->call = NFS_COMMIT;
	thread->offset_bytes = offset_bytes;
	thread->size_bytes = size_bytes;
}

/* A call that wrote nothing may have been a COMMIT, for which most kernels have no point. */
static __always_inline void find_commit(struct thread *thread, struct svc_rqst *rqst)
{
	__u32 version = PEEK(rqst, rq_vers), procedure = PEEK(rqst, rq_proc);
	void *arguments = PEEK(rqst, rq_argp);

	/* Of nfsd's module, which a machine that serves nothing has not loaded. */
	if (!bpf_core_type_exists(struct nfsd3_commitargs) ||
	    !bpf_core_type_exists(struct nfsd4_op))
		return;
	if (version == NFS_V3 && procedure == NFSPROC3_COMMIT) {
		struct nfsd3_commitargs *commit = arguments;

		commits(thread, PEEK(commit, offset), PEEK(commit, count));
	} else if (version == NFS_V4 && procedure == NFSPROC4_COMPOUND) {
		struct nfsd4_compoundargs *compound = arguments;
		struct nfsd4_op *operation = PEEK(compound, ops);
		__u32 count = PEEK(compound, opcnt);

		for (__u32 i = 0; i < MAX_OPERATIONS && i < count; i++) {
			if (PEEK(operation, opnum) == OP_COMMIT)
				commits(thread, PEEK(operation, u.commit.co_offset),
					PEEK(operation, u.commit.co_count));
			operation = (void *)operation + bpf_core_type_size(struct nfsd4_op);
		}
	}
}

static __always_inline struct address address_of(const struct socket_address *address)
{
	if (address->family == AF_INET)
		return address_of_ipv4(address->ipv4);
	return address_of_ipv6(&address->ipv6);
}

/* Which connection a call came by, as struct rpc_event has it. */
static __always_inline void tell_connection(struct svc_event *told, struct svc_xprt *transport)
{
	struct socket_address client, server;

	bpf_core_read(&client, sizeof(client), &transport->xpt_remote);
	bpf_core_read(&server, sizeof(server), &transport->xpt_local);
	told->connection = (__u32)bpf_ntohs(client.port) << 16 | bpf_ntohs(server.port);
	told->ends = ends_of(address_of(&client), address_of(&server));
}

PROGRAM("tp_btf/svc_xdr_sendto", svc_reply, __u64 *ctx)
{
	struct thread *thread = server_thread();
	struct service *service;
	struct svc_rqst *rqst;
	union event *e;

	(void)ctx;
	if (!thread || !service_of(thread)->receive_ns)
		return 0;
	thread_announce(thread);
	service = service_of(thread);
	rqst = service->rqst;
	if (!thread->call)
		find_commit(thread, rqst);
	e = emit_reserve(POINT_svc_call);
	if (e) {
		e->svc_call.enqueue_ns = service->enqueue_ns;
		e->svc_call.dequeue_ns = service->dequeue_ns;
		e->svc_call.receive_ns = service->receive_ns;
		e->svc_call.offset_bytes = thread->offset_bytes;
		e->svc_call.size_bytes = thread->size_bytes;
		e->svc_call.xid = bpf_ntohl(PEEK(rqst, rq_xid));
		tell_connection(&e->svc_call, PEEK(rqst, rq_xprt));
		e->svc_call.operation = thread->call;
		emit_submit(e, POINT_svc_call);
	}
	service->receive_ns = 0;
	return 0;
}

/* The thread has the connection for itself: nothing else was handed to the socket. */
PROGRAM("tp_btf/svcsock_tcp_send", svc_stream, __u64 *ctx)
{
	__u64 transport_key = argument_key(ctx, 0);
	struct thread *thread = server_thread();
	struct svc_rqst *rqst;
	struct sock *socket;

	if (!thread || (long)ctx[1] <= 0)
		return 0;
	rqst = service_of(thread)->rqst;
	socket = socket_of(transport_key);
	if (!socket)
		return 0;
	return stream_emit(POINT_svc_stream, PEEK(rqst, rq_xid), socket, connection_served(socket),
			   ends_served(socket));
}
