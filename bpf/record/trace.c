// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The trace's beginning and its end. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "session.h"
#include "iostrata.skel.h"

static uint64_t realtime_offset_ns(void)
{
	struct timespec realtime, monotonic;

	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	clock_gettime(CLOCK_REALTIME, &realtime);
	return (realtime.tv_sec - monotonic.tv_sec) * NSEC_PER_SEC + realtime.tv_nsec -
	       monotonic.tv_nsec;
}

int trace_begin(struct session *session)
{
	struct iostrata *skeleton = session->probes.skeleton;
	int error;

	session->metadata.options = &session->options;
	session->metadata.offset_ns = realtime_offset_ns();
	error = writer_start(session->options.compress);
	if (error)
		return error;
	if (getrandom(session->metadata.uuid, sizeof(session->metadata.uuid), 0) < 0)
		return -errno;
	error = metadata_write(&session->metadata, bpf_object__btf(skeleton->obj),
			       session->directory_fd);
	if (!error)
		error = facts_write(&session->blocks, session->directory_fd);
	if (!error)
		error = cards_write(session->directory_fd);
	if (!error)
		error = topology_write(session->rings.cpu_count, session->directory_fd);
	if (!error)
		error = vmms_write(session->options.duties, session->directory_fd);
	if (!error)
		error = rings_open(&session->rings, skeleton, &session->metadata,
				   session->directory_fd);
	if (!error)
		error = misses_open(&session->rings);
	if (error) {
		fail("the trace cannot be begun in %s: %s", session->options.directory,
		     limits_text(error));
		return error;
	}
	misses_tell(&session->rings); /* nothing was to be recorded yet */
	rings_record(&session->rings, true);
	hung_begin(session);
	own_clock(&session->rings);
	own_recorder(&session->rings, true); /* what setting up cost: not part of recording */
	own_probes(&session->rings, &session->probes);
	return rings_write(&session->rings, false);
}

int trace_end(struct session *session)
{
	struct rings *rings = &session->rings;
	unsigned int left = 0;
	int error;

	if (session->stats_fd >= 0)
		own_costs(rings);
	/* Detaching takes long, and nothing would be drained meanwhile: it comes last. */
	error = rings_finish(rings);
	own_cut(rings, session->threads);
	if (session->reason == END_COMMAND && session->filter.tree)
		left = outlived(session->probes.skeleton, session->threads);
	if (session->reason)
		own_end(rings, session->reason, left);
	own_losses(rings);
	own_full(rings);
	own_unseen(rings);
	misses_end(rings);
	own_recorder(rings, true);
	own_clock(rings);
	/* It may take a while, which is no part of recording. */
	hung_tell(session);
	if (!error)
		error = rings_write(rings, true);
	if (!error)
		error = facts_follow(&session->blocks, session->directory_fd);
	if (!error)
		error = tsc_write(session->directory_fd);
	if (!error)
		error = vmms_write(session->options.duties, session->directory_fd);
	if (!error)
		error = cgroups_write(session->probes.skeleton->bss->cgroups,
				      session->directory_fd);
	if (!error && session->options.why)
		error = stacks_write(bpf_map__fd(session->probes.skeleton->maps.stacks),
				     session->directory_fd);
	return error ? error : writer_finish();
}
