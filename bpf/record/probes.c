// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loads and attaches the BPF programs, each on its own: one that this kernel
 * refuses is left out and the rest is tried again.
 *
 * A program's name begins with its layer, which is the name of its file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "probes.h"
#include "types.h"
#include "iostrata.skel.h"

/* Only with --detail. */
static const char *const details[] = { "block_getrq", "block_rq_insert", "kvm_inject" };

/* Only with --who. */
static const char *const of_who[] = { "data", "journal_handle", "wakeup_migrate" };

/* Only with --cgroup. */
static const char *const of_groups[] = { "wakeup_cgroup_made" };

/* Only where reads are recorded (--op). */
static const char *const of_reads[] = { "read", "fault", "nfs_read_begin", "nfs_read_end" };

/* Only with --packets: each of their hits costs everybody. */
static const char *const of_packets[] = { "packet", "rpc_stream", "svc_stream", "iscsi_stream" };

/* Only where a file system's daemon may run: each of their hits costs everybody. */
static const char *const of_fuse[] = { "fuse_taken" };

/* Only where files can share what they have. */
static const char *const of_clones[] = { "syscall_enter_ioctl", "syscall_exit_ioctl" };

/* Attached when what they look at is there. */
static const char *const of_compat[] = { "compat" };
static const char *const of_loops[] = { "loop" };
static const char *const of_splits[] = { "block_rest_got" };

/* KVM's points have other arguments, and other meanings, on each type of CPU. */
static const char *const of_x86[] = { "kvm" };
#ifdef __x86_64__
#define ON_X86 true
#else
#define ON_X86 false
#endif

/* The second is loaded only where the first is refused. */
static const char *const substitutes[][2] = {
	{ "syscall_enter_msync", "syscall_enter_msync_blind" },
	{ "uring_submit_req", "uring_submit_sqe" },
	{ "btrfs_sync_file", "btrfs_sync_file_enter" },
	{ "fs_ext4_sync_enter", "fs_ext4_sync_enter_blind" },
	{ "fs_ext4_sync_exit", "fs_ext4_sync_exit_blind" },
	{ "journal_start_commit", "journal_start_commit_blind" },
	{ "journal_commit_locking", "journal_commit_locking_blind" },
	{ "journal_commit_flushing", "journal_commit_flushing_blind" },
	{ "journal_commit_logging", "journal_commit_logging_blind" },
	{ "journal_end_commit", "journal_end_commit_blind" },
	{ "data_dirty_folio", "data_dirty_page" },
	{ "kvm_exit", "kvm_exit_blind" },
	{ "virtio_add", "virtio_add_blind" },
	{ "virtio_notify_in", "virtio_notify_in_blind" },
	{ "virtio_notify_out", "virtio_notify_out_blind" },
	{ "virtio_interrupt", "virtio_interrupt_blind" },
};

/* What a program calls that not every kernel has: such a one refuses it, whatever it calls that
 * behind. */
static const struct {
	const char *program;
	enum bpf_func_id helper;
} callers[] = {
	{ "syscall_enter_msync", BPF_FUNC_find_vma },
};

/* The first looks at what is always there, and is of use only where what one of those that it is
 * paired with looks at is, and that is wanted. */
static const char *const companions[][2] = {
	{ "socket_ready", "nbd_header_received" },   { "socket_ready", "target_answer" },
	{ "socket_backlog", "nbd_header_received" }, { "socket_backlog", "target_answer" },
	{ "socket_backlog", "nvme_ready" },          { "socket_backlog", "nvmet_ready" },
	{ "socket_backlog", "rbd_ready" },           { "socket_backlog", "rpc_data_ready" },
	{ "socket_backlog", "svc_data_ready" },
};

#define SUBSTITUTES (sizeof(substitutes) / sizeof(substitutes[0]))
#define CALLERS (sizeof(callers) / sizeof(callers[0]))
#define COMPANIONS (sizeof(companions) / sizeof(companions[0]))

/* The last complaint of libbpf, and the program that it names. */
static char complaint[160];
static char complained_of[64];

static int hear(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char line[512];
	const char *name;

	if (level > LIBBPF_WARN)
		return 0;
	if (getenv("IOSTRATA_DEBUG")) {
		va_list all;

		va_copy(all, arguments);
		vfprintf(stderr, format, all);
		va_end(all);
	}
	vsnprintf(line, sizeof(line), format, arguments);
	name = strstr(line, "prog '");
	if (!name || strstr(line, "BEGIN PROG LOAD LOG"))
		return 0;
	snprintf(complained_of, sizeof(complained_of), "%.*s", (int)strcspn(name + 6, "'"),
		 name + 6);
	name = strstr(name, "': ");
	snprintf(complaint, sizeof(complaint), "%.*s", name ? (int)strcspn(name + 3, "\n") : 0,
		 name ? name + 3 : "");
	return 0;
}

struct probe *probes_find(struct probes *probes, const char *program)
{
	for (unsigned int i = 0; i < probes->count; i++) {
		if (!strcmp(probes->list[i].program, program))
			return &probes->list[i];
	}
	return NULL;
}

/* As above, of a program that stands in for another: that one. */
static struct probe *probes_of(struct probes *probes, const char *program)
{
	char name[64];
	size_t length = strlen(program) - (is_again(program) ? strlen(AGAIN) : 0);

	snprintf(name, sizeof(name), "%.*s", (int)length, program);
	return probes_find(probes, name);
}

static void name_points(struct probe *probe, const struct bpf_program *program)
{
	const char *section = bpf_program__section_name(program);
	const char *point = strrchr(section, '/');

	snprintf(probe->layer, sizeof(probe->layer), "%.*s", (int)strcspn(probe->program, "_"),
		 probe->program);
	if (point) {
		snprintf(probe->points, sizeof(probe->points), "%s", point + 1);
		return;
	}
	if (!uprobes_name(probe->program, probe->points, sizeof(probe->points)))
		calls_name(probe->program, probe->points, sizeof(probe->points));
}

/* What a program attaches to, by the name that BTF has for it; "": BTF does not tell. */
static void name_target(struct probe *probe, const struct bpf_program *program)
{
	const char *section = bpf_program__section_name(program);

	probe->function = !strncmp(section, "fentry/", 7) || !strncmp(section, "fexit/", 6);
	if (probe->function || !strncmp(section, "tp_btf/", 7))
		snprintf(probe->target, sizeof(probe->target), "%s%s",
			 probe->function ? "" : "btf_trace_", strchr(section, '/') + 1);
}

static bool names(const char *const *list, unsigned int count, const struct probe *probe)
{
	for (unsigned int i = 0; i < count; i++) {
		if (!strcmp(probe->layer, list[i]) || !strcmp(probe->program, list[i]))
			return true;
	}
	return false;
}

#define NAMES(list, probe) names(list, sizeof(list) / sizeof((list)[0]), probe)

static bool is_wanted(const struct probe *probe, const struct options *options)
{
	if (options->probes)
		return true;
	if (NAMES(details, probe) && !options->detail)
		return false;
	if (NAMES(of_who, probe) && !options->who)
		return false;
	if (NAMES(of_groups, probe) && !options->cgroup_count)
		return false;
	if (NAMES(of_reads, probe) && !options->reads)
		return false;
	if (NAMES(of_packets, probe) && !options->port_count)
		return false;
	if (NAMES(of_fuse, probe) && !fuse_is_served(options))
		return false;
	if (NAMES(of_clones, probe) && !clones_are_possible(options))
		return false;
	return duties_want(options->duties, probe);
}

/* Leaves the skeleton open. */
static int list_programs(struct probes *probes, const struct options *options)
{
	struct iostrata *skeleton = probes->skeleton = iostrata__open();
	struct bpf_program *program;

	if (!skeleton)
		return -errno;
	probes->list = calloc(skeleton->skeleton->prog_cnt, sizeof(*probes->list));
	if (!probes->list)
		return -ENOMEM;
	bpf_object__for_each_program (program, skeleton->obj) {
		struct probe *probe = &probes->list[probes->count];

		if (is_again(bpf_program__name(program)))
			continue;
		probes->count++;
		probe->program = strdup(bpf_program__name(program));
		name_points(probe, program);
		name_target(probe, program);
		probe->wanted = is_wanted(probe, options);
		probe->again =
			probe->function ? probes->functions_stood_in : probes->points_stood_in;
		for (unsigned int i = 0; i < SUBSTITUTES; i++) {
			if (!strcmp(probe->program, substitutes[i][1]))
				probe->wanted = false;
		}
	}
	return 0;
}

/* False: nothing more to leave out. */
static bool leave_out(struct probes *probes, const char *program, int error, const char *why)
{
	struct probe *probe = probes_find(probes, program);

	/* Nothing stands in for it then. */
	if (!probe && is_again(program)) {
		probe = probes_of(probes, program);
		if (!probe->again)
			return false;
		probe->again = false;
		return true;
	}
	if (!probe || !probe->wanted || probe->error)
		return false;
	probe->error = error;
	snprintf(probe->text, sizeof(probe->text), "%s", why);
	/* What is forbidden is so by every other way too. */
	for (unsigned int i = 0; error != -EPERM && i < SUBSTITUTES; i++) {
		struct probe *substitute = probes_find(probes, substitutes[i][1]);

		if (!strcmp(substitutes[i][0], program) && substitute)
			substitute->wanted = true;
	}
	return true;
}

/* Which programs attach to what is not there. */
static int find_absent(struct probes *probes, const struct types *types)
{
	const char **names = calloc(probes->count, sizeof(*names));
	bool *present = calloc(probes->count, sizeof(*present));
	int error = names && present ? 0 : -ENOMEM;

	for (unsigned int i = 0; !error && i < probes->count; i++)
		names[i] = probes->list[i].target;
	if (!error)
		error = presence_test(types, names, present, probes->count);
	for (unsigned int i = 0; !error && i < probes->count; i++)
		probes->list[i].absent = names[i][0] && !present[i];
	free(names);
	free(present);
	return error;
}

/* Not wanted is what none of its companions is there for. */
static void find_alone(struct probes *probes)
{
	for (unsigned int i = 0; i < COMPANIONS; i++)
		probes_find(probes, companions[i][0])->alone = true;
	for (unsigned int i = 0; i < COMPANIONS; i++) {
		const struct probe *companion = probes_find(probes, companions[i][1]);

		if (companion->wanted && !companion->absent)
			probes_find(probes, companions[i][0])->alone = false;
	}
	for (unsigned int i = 0; i < probes->count; i++) {
		if (probes->list[i].alone)
			probes->list[i].wanted = false;
	}
}

/* Before anything is loaded, as each refusal costs a whole load. */
static int leave_out_hopeless(struct probes *probes, const struct types *types)
{
	const char *absent =
		privileges_reach_modules()
			? "not in this kernel, or in a module that is not loaded or has no BTF"
			: "not in this kernel, or in a module: those are for CAP_SYS_ADMIN only";
	int error = find_absent(probes, types);
	bool again = !error;

	for (unsigned int i = 0; !error && i < CALLERS; i++) {
		if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_TRACEPOINT, callers[i].helper, NULL) == 0)
			leave_out(probes, callers[i].program, -EOPNOTSUPP,
				  "this kernel's BPF lacks what it calls");
	}

	if (!error)
		find_alone(probes);
	/* What takes a program's place may be hopeless too. */
	while (again) {
		again = false;
		for (unsigned int i = 0; i < probes->count; i++) {
			const struct probe *probe = &probes->list[i];

			if (probe->absent)
				again |= leave_out(probes, probe->program, -ESRCH, absent);
			else if (probe->function && probes->fentry_error)
				again |= leave_out(
					probes, probe->program, probes->fentry_error,
					"this kernel lets no program look at its functions");
			else if (!ON_X86 && NAMES(of_x86, probe))
				again |=
					leave_out(probes, probe->program, -EOPNOTSUPP,
						  "what KVM tells is not read on this type of CPU");
		}
	}
	return error;
}

/* core: the types that libbpf looks into, a file of them; NULL: those of the kernel and its modules. */
static int try_load(struct probes *probes, const char *core, probes_prepare prepare, void *context)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = core);
	struct bpf_program *program;
	int error;

	probes->skeleton =
		probes->has_cmpxchg ? iostrata__open_opts(&options) : older_open(&options);
	if (!probes->skeleton)
		return -errno;
	bpf_object__for_each_program (program, probes->skeleton->obj) {
		const char *name = bpf_program__name(program);
		const struct probe *probe = probes_of(probes, name);

		bpf_program__set_autoload(program, probe->wanted && !probe->error &&
							   (probe->again || !is_again(name)));
		/* Attached here, not by the skeleton. */
		bpf_program__set_autoattach(program, false);
	}
	error = prepare(probes->skeleton, context);
	if (!error)
		error = iostrata__load(probes->skeleton);
	if (error) {
		iostrata__destroy(probes->skeleton);
		probes->skeleton = NULL;
	}
	return error;
}

/* Again and again, without what is refused. */
static int load_what_is_taken(struct probes *probes, const char *core, probes_prepare prepare,
			      void *context)
{
	for (;;) {
		int error;

		complained_of[0] = 0;
		complaint[0] = 0;
		error = try_load(probes, core, prepare, context);
		/* It is not about the program that it came upon. */
		if (error == -EMFILE || error == -ENOMEM)
			return error;
		if (!error || !leave_out(probes, complained_of, error, complaint))
			return error;
	}
}

int probes_load(struct probes *probes, struct types *types, const struct options *options,
		probes_prepare prepare, void *context)
{
	/* All that there are; of those of modules, libbpf gives up at a refusal. */
	const char *all = privileges_reach_modules() ? NULL : "/sys/kernel/btf/vmlinux";
	char core[32];
	int error, fd;

	libbpf_set_print(hear);
	error = list_programs(probes, options);
	if (!error)
		error = leave_out_hopeless(probes, types);
	fd = error ? error : core_write(types, bpf_object__btf(probes->skeleton->obj));
	iostrata__destroy(probes->skeleton);
	probes->skeleton = NULL;
	/* libbpf has its own of them, as large. */
	types_close(types);
	if (error || fd == -ENOMEM)
		return fd;
	snprintf(core, sizeof(core), "/proc/self/fd/%d", fd);
	error = load_what_is_taken(probes, access(core, R_OK) ? all : core, prepare, context);
	if (fd >= 0)
		close(fd);
	return error;
}

int probes_keep(struct probes *probes, const struct bpf_program *program, struct bpf_link *link)
{
	struct attached *links;

	if (!link)
		return -errno;
	links = realloc(probes->links, (probes->link_count + 1) * sizeof(*links));
	if (!links) {
		bpf_link__destroy(link);
		return -ENOMEM;
	}
	probes->links = links;
	links[probes->link_count++] =
		(struct attached){ link, bpf_program__type(program) == BPF_PROG_TYPE_TRACEPOINT };
	return 0;
}

static enum occasion occasion_of(const struct probe *probe)
{
	if (NAMES(of_compat, probe))
		return OCCASION_COMPAT;
	if (NAMES(of_splits, probe))
		return OCCASION_SPLITS;
	return NAMES(of_loops, probe) ? OCCASION_LOOPS : OCCASION_ALWAYS;
}

/* Opening events of system calls takes a right that the recorder drops. */
static void attach_calls_again(struct probes *probes)
{
	struct bpf_program *program;

	bpf_object__for_each_program (program, probes->skeleton->obj) {
		struct probe *probe = probes_of(probes, bpf_program__name(program));

		if (!is_again(bpf_program__name(program)) || bpf_program__fd(program) < 0 ||
		    probe->error || !calls_attach(probes, probe, program))
			continue;
		probe->again = !probe->error;
		probe->error = 0; /* which the first has none of */
	}
}

void probes_attach(struct probes *probes, enum occasion occasion)
{
	struct bpf_program *program;

	if (probes->attached[occasion])
		return;
	probes->attached[occasion] = true;
	bpf_object__for_each_program (program, probes->skeleton->obj) {
		struct probe *probe = probes_find(probes, bpf_program__name(program));

		if (!probe || !probe->wanted || probe->error || occasion_of(probe) != occasion ||
		    uprobes_attach(probes, probe))
			continue;
		complaint[0] = 0;
		if (!calls_attach(probes, probe, program))
			probe->error = probes_keep(probes, program, bpf_program__attach(program));
		if (probe->error)
			snprintf(probe->text, sizeof(probe->text), "%s",
				 complaint[0] ? complaint : "cannot be attached");
	}
	if (occasion == OCCASION_ALWAYS)
		attach_calls_again(probes);
}

int probes_attach_again(struct probes *probes, struct bpf_program *program)
{
	const struct probe *probe = probes_of(probes, bpf_program__name(program));

	if (bpf_program__type(program) == BPF_PROG_TYPE_TRACEPOINT)
		return probe->again ? 0 : -EACCES;
	if (probe->error)
		return probe->error;
	if (!probes->attached[occasion_of(probe)])
		return -EAGAIN;
	return probes_keep(probes, program, bpf_program__attach(program));
}

const struct probe *probes_replacement(const struct probes *probes, const struct probe *probe)
{
	const struct probe *other;

	if (!probe->error)
		return NULL;
	for (unsigned int i = 0; i < SUBSTITUTES; i++) {
		if (strcmp(substitutes[i][0], probe->program))
			continue;
		other = probes_find((struct probes *)probes, substitutes[i][1]);
		if (other && other->wanted && !other->error)
			return other;
	}
	return NULL;
}

static const char *error_name(int error)
{
	const char *name = strerrorname_np(-error);

	/* The kernel's own ENOTSUPP, 524, which the C library does not know. */
	return name ? name : "ENOTSUPP";
}

static void report_one(const struct probes *probes, const struct probe *probe, FILE *out)
{
	const struct probe *other = probes_replacement(probes, probe);

	fprintf(out, "%s\t%s\t%s\t", probe->program, probe->points, probe->layer);
	if (probe->alone)
		fprintf(out, "unused\tnothing is there that it would be of use to\n");
	else if (!probe->wanted)
		fprintf(out, "unused\ta better program takes its place\n");
	else if (other)
		fprintf(out, "unused\t%s takes its place\n", other->program);
	else
		fprintf(out, "%s\t%s\n", probe->error ? error_name(probe->error) : "ok",
			probe->text);
}

/* One line a program: program, points, layer, result, text. */
int probes_report(const struct probes *probes, FILE *out)
{
	fputs("program\tpoints\tlayer\tresult\ttext\n", out);
	for (unsigned int i = 0; i < probes->count; i++)
		report_one(probes, &probes->list[i], out);
	return fflush(out) ? -errno : 0;
}

void probes_close(struct probes *probes)
{
	uprobes_close(probes);
	for (unsigned int i = 0; i < probes->link_count; i++) {
		if (!probes->links[i].is_slow)
			bpf_link__destroy(probes->links[i].link);
	}
	iostrata__destroy(probes->skeleton);
}
