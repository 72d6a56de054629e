// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The recorder's own events: clocks, losses, costs, probes. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probes.h"
#include "iostrata.skel.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t read_tsc(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

void own_event(struct rings *rings, union event *event, enum point point, uint16_t cpu)
{
	if (!event->syscall.time_ns)
		event->syscall.time_ns = now_ns();
	event->syscall.point = point;
	event->syscall.cpu = cpu;
	if (!event->syscall.tid)
		event->syscall.tid = getpid();
	if (stream_full(&rings->recorder) &&
	    stream_write(&rings->recorder, rings->metadata, UINT64_MAX, 0, 0))
		return;
	stream_add(&rings->recorder, event);
}

/* The tightest of a few tries: the others were interrupted. */
void own_clock(struct rings *rings)
{
	union event best = {};

	for (int attempt = 0; attempt < 5; attempt++) {
		union event e = {};
		uint64_t end_ns;

		e.clock_sample.time_ns = now_ns();
		e.clock_sample.boottime_ns = clock_ns(CLOCK_BOOTTIME);
		e.clock_sample.realtime_ns = clock_ns(CLOCK_REALTIME);
		e.clock_sample.tsc = read_tsc();
		end_ns = now_ns();
		e.clock_sample.width_ns = end_ns - e.clock_sample.time_ns;
		if (!attempt || e.clock_sample.width_ns < best.clock_sample.width_ns)
			best = e;
	}
	own_event(rings, &best, POINT_clock_sample, RECORDER_CPU);
}

void own_losses(struct rings *rings)
{
	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++) {
		for (unsigned int point = 0; point < POINT_count; point++) {
			uint64_t lost = rings->skeleton->bss->lost[cpu][point];
			union event e = { .loss = { .lost_count = lost, .lost_point = point } };

			if (lost == rings->said_lost[cpu][point])
				continue;
			rings->said_lost[cpu][point] = lost;
			own_event(rings, &e, POINT_loss, cpu);
		}
	}
}

void own_unseen(struct rings *rings)
{
	for (unsigned int kind = 0; kind < UNSEEN_KINDS; kind++) {
		const struct full *unseen = &rings->skeleton->bss->unseen[kind];
		union event e = {
			.unseen = { .count = unseen->count, .kind = kind, .dev = unseen->last }
		};

		if (e.unseen.count == rings->said_unseen[kind])
			continue;
		rings->said_unseen[kind] = e.unseen.count;
		own_event(rings, &e, POINT_unseen, RECORDER_CPU);
	}
}

void own_full(struct rings *rings)
{
	for (unsigned int table = 0; table < TABLES; table++) {
		const struct full *full = &rings->skeleton->bss->full[table];
		union event e = {
			.full = { .refused_count = full->count, .last = full->last, .table = table }
		};

		if (e.full.refused_count == rings->said_full[table])
			continue;
		rings->said_full[table] = e.full.refused_count;
		own_event(rings, &e, POINT_full, RECORDER_CPU);
	}
}

/* Whether it writes or makes durable, or reads: not one that hands over or collects requests. */
static bool is_told(unsigned int call)
{
	return call && (call < CALL_IO_SUBMIT || call > CALL_IO_URING_ENTER);
}

/* Until it ends, at least. */
static void own_stopped(struct rings *rings, const struct thread *thread, unsigned int tid)
{
	union event e = { .sched_stopped = { .time_ns = rings->ending_ns,
					     .tid = tid,
					     .since_ns = thread->stopped_ns,
					     .subject_tid = tid,
					     .by = thread->stopped_by } };

	own_event(rings, &e, POINT_sched_stopped, RECORDER_CPU);
}

/* At what others' syncs wait for, and still is. */
static void own_beside(struct rings *rings, const struct thread *thread, unsigned int tid)
{
	union event e = { .btrfs_beside = { .time_ns = rings->ending_ns,
					    .tid = tid,
					    .enter_ns = thread->beside_ns,
					    .dev = thread->dev } };

	own_event(rings, &e, POINT_btrfs_beside, RECORDER_CPU);
}

void own_cut(struct rings *rings, const struct thread *threads)
{
	for (unsigned int i = 0; i < MAX_THREADS; i++) {
		const struct thread *thread = &threads[i];
		union event e = { .syscall_cut = {
					  .time_ns = rings->ending_ns,
					  .tid = rings->skeleton->bss->thread_owner[i],
					  .enter_ns = thread->enter_ns,
					  .inode = thread->inode,
					  .offset_bytes = thread->offset_bytes,
					  .dev = thread->dev,
					  .result = -EINPROGRESS,
					  .size_bytes = thread->size_bytes,
					  .tgid = thread->tgid,
					  .open_flags = thread->open_flags,
					  .call = thread->call,
					  .rwf = thread->rwf,
				  } };

		if (!e.syscall_cut.tid)
			continue;
		if (thread->enter_ns && thread->enter_ns <= rings->ending_ns &&
		    is_told(thread->call))
			own_event(rings, &e, POINT_syscall_cut, RECORDER_CPU);
		if (thread->call == CALL_BESIDE && !thread->enter_ns &&
		    thread->beside_ns <= rings->ending_ns)
			own_beside(rings, thread, e.syscall_cut.tid);
		if (thread->stopped_ns && thread->stopped_ns <= rings->ending_ns &&
		    (thread->stopped_by == STOP_SIGNAL || thread->stopped_by == STOP_FREEZER))
			own_stopped(rings, thread, e.syscall_cut.tid);
	}
}

void own_end(struct rings *rings, enum end_reason reason, unsigned int outlived_count)
{
	union event e = { .end = { .reason = reason, .outlived_count = outlived_count } };

	own_event(rings, &e, POINT_end, RECORDER_CPU);
}

void own_costs(struct rings *rings)
{
	struct bpf_program *program;

	bpf_object__for_each_program (program, rings->skeleton->obj) {
		struct bpf_prog_info info;
		union event e = {};

		if (!program_info(program, &info))
			continue;
		e.cost.run_ns = info.run_time_ns;
		e.cost.run_count = info.run_cnt;
		snprintf(e.cost.program, sizeof(e.cost.program), "%s", bpf_program__name(program));
		own_event(rings, &e, POINT_cost, RECORDER_CPU);
	}
}

static uint64_t timeval_ns(struct timeval time)
{
	return time.tv_sec * NSEC_PER_SEC + time.tv_usec * 1000ull;
}

void own_recorder(struct rings *rings, bool asks_stolen)
{
	struct rusage usage;
	union event e = {};

	getrusage(RUSAGE_SELF, &usage);
	e.recorder.cpu_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
	e.recorder.event_count = rings->event_count;
	e.recorder.lost_count = rings_lost(rings);
	if (asks_stolen)
		e.recorder.stolen_ns = cpus_stolen_ns();
	own_event(rings, &e, POINT_recorder, RECORDER_CPU);
}

/* Whether nothing of a layer is in this kernel: then there is nothing of it to be missed. */
static bool is_absent(const struct probes *probes, const char *layer)
{
	for (unsigned int i = 0; i < probes->count; i++) {
		const struct probe *probe = &probes->list[i];

		if (probe->wanted && !strcmp(probe->layer, layer) && probe->error != -ESRCH &&
		    probe->error != -ENOENT)
			return false;
	}
	return true;
}

void own_probes(struct rings *rings, struct probes *probes)
{
	for (unsigned int i = 0; i < probes->count; i++) {
		struct probe *probe = &probes->list[i];
		union event e = { .probe = { .error = probe->error } };

		if (!probe->wanted || probes_replacement(probes, probe) ||
		    is_absent(probes, probe->layer) ||
		    (probe->told && probe->told_error == probe->error))
			continue;
		probe->told = true;
		probe->told_error = probe->error;
		snprintf(e.probe.program, sizeof(e.probe.program), "%s", probe->program);
		own_event(rings, &e, POINT_probe, RECORDER_CPU);
	}
}
