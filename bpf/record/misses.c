// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the kernel skipped programs for: it counts that, and so does what stands in for them
 * (stand_in.bpf.h); the difference is lost.
 *
 * Programs that disable preemption would be skipped more often (30 times, measured with
 * bpf_preempt_disable on Linux 7.2): enabling it again, before the kernel takes them for
 * ended, is where they then are preempted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "probes.h"
#include "iostrata.skel.h"

/* Between two looks: what is lost between them is a window in which writes are left out.  Each asks
 * the kernel of every program. */
#define SELDOM_NS 250000000ull
#define OFTEN_NS 50000000ull

#define STAND_INS ".data.stand_ins"
#define STAND_IN "_stand_in"

/* again: what is attached beside it, NULL: nothing is; it comes first at a function, else second. */
struct missed {
	const struct bpf_program *program;
	struct bpf_program *again;
	struct stand_in *stand_in;
	bool at_function;
	uint64_t alone; /* misses while it was attached only once: at a function, until then */
	int64_t before; /* what was lost, as it was last looked at */
	int64_t said;
};

bool is_again(const char *program)
{
	size_t length = strlen(program), end = strlen(AGAIN);

	return length > end && !strcmp(program + length - end, AGAIN);
}

bool program_info(const struct bpf_program *program, struct bpf_prog_info *info)
{
	__u32 size = sizeof(*info);

	*info = (struct bpf_prog_info){};
	return bpf_program__fd(program) >= 0 &&
	       !bpf_obj_get_info_by_fd(bpf_program__fd(program), info, &size);
}

static uint64_t misses_of(const struct bpf_program *program)
{
	struct bpf_prog_info info;

	return program_info(program, &info) ? info.recursion_misses : 0;
}

static struct stand_in *stand_in_of(const struct iostrata *skeleton, const char *program)
{
	const struct btf *btf = bpf_object__btf(skeleton->obj);
	int id = btf__find_by_name_kind(btf, STAND_INS, BTF_KIND_DATASEC);
	const struct btf_type *section = id < 0 ? NULL : btf__type_by_id(btf, id);
	const struct btf_var_secinfo *variables = section ? btf_var_secinfos(section) : NULL;
	size_t length = strlen(program);

	for (unsigned int i = 0; section && i < btf_vlen(section); i++) {
		const struct btf_type *variable = btf__type_by_id(btf, variables[i].type);
		const char *name = btf__name_by_offset(btf, variable->name_off);

		if (!strncmp(name, program, length) && !strcmp(name + length, STAND_IN))
			return (struct stand_in *)((char *)skeleton->data_stand_ins +
						   variables[i].offset);
	}
	return NULL;
}

static void open_one(struct rings *rings, struct bpf_program *program)
{
	struct missed *missed = &rings->missed[rings->missed_programs];
	const char *name = bpf_program__name(program);
	const char *section = bpf_program__section_name(program);
	char again[64];

	if (is_again(name) || bpf_program__fd(program) < 0)
		return;
	rings->missed_programs++;
	missed->program = program;
	missed->at_function = *section == 'f';
	snprintf(again, sizeof(again), "%s" AGAIN, name);
	missed->again = bpf_object__find_program_by_name(rings->skeleton->obj, again);
	if (missed->again && bpf_program__fd(missed->again) < 0)
		missed->again = NULL;
	if (missed->again)
		missed->stand_in = stand_in_of(rings->skeleton, name);
	if (!missed->stand_in)
		missed->again = NULL;
}

int misses_open(struct rings *rings)
{
	struct bpf_program *program;

	rings->missed = calloc(rings->skeleton->skeleton->prog_cnt, sizeof(*rings->missed));
	if (!rings->missed)
		return -ENOMEM;
	bpf_object__for_each_program (program, rings->skeleton->obj)
		open_one(rings, program);
	return 0;
}

void misses_close(struct rings *rings)
{
	free(rings->missed);
	rings->missed = NULL;
	rings->missed_programs = 0;
}

static int64_t lost_of(const struct missed *missed)
{
	if (!missed->again || missed->stand_in->standing != STANDS_IN)
		return misses_of(missed->program);
	if (missed->at_function)
		return missed->alone + misses_of(missed->again) - missed->stand_in->count;
	return misses_of(missed->program) - missed->stand_in->count;
}

/* One step a look: none that is under way without a mark may be taken for one that was skipped. */
static void advance(struct missed *missed, struct probes *probes)
{
	struct stand_in *stand_in = missed->stand_in;
	int error;

	if (stand_in->standing == STANDS_BY) {
		missed->alone = misses_of(missed->program);
		stand_in->standing = STANDS_IN;
	} else if (stand_in->standing == STANDS_BACK) {
		stand_in->standing = STANDS_BY;
		error = probes_attach_again(probes, missed->again);
		if (error)
			stand_in->standing = STANDS_BACK;
		if (error && error != -EAGAIN)
			missed->again = NULL;
	}
}

void misses_stand_in(struct rings *rings, struct probes *probes)
{
	if (!rings->missed_any || rings->stood_in_at_ns == rings->missed_at_ns)
		return;
	rings->stood_in_at_ns = rings->missed_at_ns;
	for (unsigned int i = 0; i < rings->missed_programs; i++) {
		if (rings->missed[i].again)
			advance(&rings->missed[i], probes);
	}
}

void misses_tell(struct rings *rings)
{
	bool standing_in = rings->missed_any;
	uint64_t since_ns = standing_in ? rings->missed_before_ns : rings->missed_at_ns;

	rings->missed_before_ns = rings->missed_at_ns;
	rings->missed_at_ns = now_ns();
	for (unsigned int i = 0; i < rings->missed_programs; i++) {
		struct missed *missed = &rings->missed[i];
		union event e = { .miss = { .since_ns = since_ns } };
		int64_t lost = lost_of(missed), settled = lost;

		/* One that was skipped is stood in for a moment later. */
		if (standing_in && missed->before < lost)
			settled = missed->before;
		if (since_ns && settled > missed->said) {
			e.miss.missed_count = settled - missed->said;
			snprintf(e.miss.program, sizeof(e.miss.program), "%s",
				 bpf_program__name(missed->program));
			own_event(rings, &e, POINT_miss, RECORDER_CPU);
			rings->missed_count += e.miss.missed_count;
			rings->missed_any |= missed->again != NULL;
		}
		missed->said = settled;
		missed->before = lost;
	}
}

void misses_follow(struct rings *rings, uint64_t now)
{
	uint64_t period_ns = rings->missed_any ? OFTEN_NS : SELDOM_NS;

	if (now >= rings->missed_at_ns + period_ns)
		misses_tell(rings);
}

void misses_end(struct rings *rings)
{
	misses_tell(rings);
	misses_tell(rings);
}
