// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that look at functions of processes that serve others: each is declared here,
 * and attached to every process of its duty, in whatever container that runs, while it
 * lives.  (An attached one keeps the file system that the file is on from being unmounted.)
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "probes.h"
#include "iostrata.skel.h"

/* Names of C++, which are the same since the versions of Ceph that they say, 15 (Octopus), but for
 * those of 14 (Nautilus), which have their own. */
#define DEQUEUE_OP                                                              \
	"_ZN3OSD10dequeue_opEN5boost13intrusive_ptrI2PGEENS1_I9OpRequestEERN10" \
	"ThreadPool8TPHandleE"
#define LIBRBD "librbd.so*"
#define COMPLETION "EPNS_3RBD13AioCompletionE"
#define BUFFER "RN4ceph6buffer7v15_2_04listE"
#define BUFFER_14 "RN4ceph6buffer7v14_2_04listE"
#define WRITE_V1 "_ZN10ProtocolV113write_messageEP7Message"
#define WRITES(buffer) "Emm" buffer "PNS_3RBD13AioCompletionE"
#define LIBCEPH "libceph-common.so*"
#define USES_LIBRBD                                                               \
	(DUTY_BIT(workload) | DUTY_BIT(vmm) | DUTY_BIT(tgt) | DUTY_BIT(rbd_nbd) | \
	 DUTY_BIT(qemu_nbd))
#define BLUESTORE(function) "_ZN9BlueStore" function "EPNS_12TransContextE"

static const struct uprobe {
	const char *program;  /* one may be for several functions */
	const char *file;     /* the name of what has the function, as for fnmatch(3) */
	const char *function; /* a symbol, dynamic or static */
	unsigned int duties;
	bool at_return;
} uprobes[] = {
	{ "virtiofs_request", "virtiofsd", "fuse_session_process_buf_int", DUTY_BIT(virtiofs),
	  false },
	{ "virtiofs_reply", "virtiofsd", "virtio_send_msg", DUTY_BIT(virtiofs), false },
	{ "osd_message", "ceph-osd", "_ZN9OpRequestC1EP7MessageP9OpTracker", DUTY_BIT(osd), false },
	{ "osd_send", "ceph-osd", "_ZN10OSDService24send_message_osd_clusterEiP7Messagej",
	  DUTY_BIT(osd), false },
	{ "osd_send_all", "ceph-osd",
	  "_ZN10OSDService24send_message_osd_clusterERSt6vectorISt4pairIiP7MessageESaIS4_EEj",
	  DUTY_BIT(osd), false },
	{ "osd_work", "ceph-osd", DEQUEUE_OP, DUTY_BIT(osd), false },
	{ "osd_rest", "ceph-osd", DEQUEUE_OP, DUTY_BIT(osd), true },
	{ "osd_reply", "ceph-osd", "_ZN12PrimaryLogPG12log_op_statsERK9OpRequestmm", DUTY_BIT(osd),
	  false },
	{ "osd_written_v1", "ceph-osd", WRITE_V1 BUFFER "b", DUTY_BIT(osd), false },
	{ "osd_written_v1", "ceph-osd", WRITE_V1 BUFFER_14 "b", DUTY_BIT(osd), false },
	{ "osd_written_v2", "ceph-osd", "_ZN10ProtocolV213write_messageEP7Messageb", DUTY_BIT(osd),
	  false },
	{ "bluestore_begin", "ceph-osd",
	  BLUESTORE("20_txc_add_transaction") "PN4ceph2os11TransactionE", DUTY_BIT(osd), false },
	{ "bluestore_begin", "ceph-osd",
	  BLUESTORE("20_txc_add_transaction") "PN11ObjectStore11TransactionE", DUTY_BIT(osd),
	  false },
	{ "bluestore_data", "ceph-osd", BLUESTORE("15_txc_aio_submit"), DUTY_BIT(osd), false },
	{ "bluestore_ready", "ceph-osd", BLUESTORE("14_txc_finish_io"), DUTY_BIT(osd), false },
	{ "bluestore_submit", "ceph-osd", BLUESTORE("13_txc_apply_kv") "b", DUTY_BIT(osd), false },
	{ "bluestore_submit", "ceph-osd", BLUESTORE("15_txc_applied_kv"), DUTY_BIT(osd), false },
	{ "bluestore_synced", "ceph-osd",
	  "_ZN12RocksDBStore23submit_transaction_syncESt10shared_ptrIN10KeyValueDB15"
	  "TransactionImplEE",
	  DUTY_BIT(osd), true },
	{ "bluestore_done", "ceph-osd", BLUESTORE("17_txc_committed_kv"), DUTY_BIT(osd), false },
	{ "librbd_write", LIBRBD, "rbd_aio_write", USES_LIBRBD, false },
	{ "librbd_write", LIBRBD, "rbd_aio_write2", USES_LIBRBD, false },
	{ "librbd_write_parts", LIBRBD, "rbd_aio_writev", USES_LIBRBD, false },
	{ "librbd_flush", LIBRBD, "rbd_aio_flush", USES_LIBRBD, false },
	{ "librbd_write_of_object", LIBRBD, "_ZN6librbd5Image9aio_write" WRITES(BUFFER),
	  USES_LIBRBD, false },
	{ "librbd_write_of_object", LIBRBD, "_ZN6librbd5Image9aio_write" WRITES(BUFFER_14),
	  USES_LIBRBD, false },
	{ "librbd_write_of_object", LIBRBD, "_ZN6librbd5Image10aio_write2" WRITES(BUFFER) "i",
	  USES_LIBRBD, false },
	{ "librbd_write_of_object", LIBRBD, "_ZN6librbd5Image10aio_write2" WRITES(BUFFER_14) "i",
	  USES_LIBRBD, false },
	{ "librbd_flush_of_object", LIBRBD, "_ZN6librbd5Image9aio_flush" COMPLETION, USES_LIBRBD,
	  false },
	{ "librbd_done", LIBRBD, "rbd_aio_get_return_value", USES_LIBRBD, false },
	{ "librbd_done", LIBRBD, "_ZN6librbd3RBD13AioCompletion16get_return_valueEv", USES_LIBRBD,
	  false },
	{ "librbd_completion", LIBRBD, "rbd_aio_create_completion", USES_LIBRBD, false },
	{ "librbd_completion_of_object", LIBRBD, "_ZN6librbd3RBD13AioCompletionC1EPvPFvS2_S2_E",
	  USES_LIBRBD, false },
	{ "librbd_await", LIBRBD, "rbd_aio_wait_for_complete", USES_LIBRBD, false },
	{ "librbd_await", LIBRBD, "_ZN6librbd3RBD13AioCompletion17wait_for_completeEv", USES_LIBRBD,
	  false },
	{ "librbd_done_await", LIBRBD, "rbd_aio_wait_for_complete", USES_LIBRBD, true },
	{ "librbd_done_await", LIBRBD, "_ZN6librbd3RBD13AioCompletion17wait_for_completeEv",
	  USES_LIBRBD, true },
	{ "librbd_write_awaited", LIBRBD, "rbd_write", USES_LIBRBD, false },
	{ "librbd_write_awaited", LIBRBD, "rbd_write2", USES_LIBRBD, false },
	{ "librbd_flush_awaited", LIBRBD, "rbd_flush", USES_LIBRBD, false },
	{ "librbd_done_awaited", LIBRBD, "rbd_write", USES_LIBRBD, true },
	{ "librbd_done_awaited", LIBRBD, "rbd_write2", USES_LIBRBD, true },
	{ "librbd_done_awaited", LIBRBD, "rbd_flush", USES_LIBRBD, true },
	{ "librbd_other", LIBRBD, "rbd_discard", DUTY_BIT(workload), false },
	{ "librbd_other", LIBRBD, "rbd_write_zeroes", DUTY_BIT(workload), false },
	{ "librbd_other", LIBRBD, "rbd_writesame", DUTY_BIT(workload), false },
	{ "librbd_other", LIBRBD, "rbd_compare_and_write", DUTY_BIT(workload), false },
	{ "librbd_other", LIBRBD, "rbd_aio_discard", DUTY_BIT(workload), false },
	{ "librbd_other", LIBRBD, "rbd_aio_write_zeroes", DUTY_BIT(workload), false },
	{ "librbd_other", LIBRBD, "rbd_aio_writesame", DUTY_BIT(workload), false },
	{ "librbd_other", LIBRBD, "rbd_aio_compare_and_write", DUTY_BIT(workload), false },
	{ "librbd_sent_v1", LIBCEPH, WRITE_V1 BUFFER "b", USES_LIBRBD, false },
	{ "librbd_sent_v1", LIBCEPH, WRITE_V1 BUFFER_14 "b", USES_LIBRBD, false },
	{ "librbd_sent_v2", LIBCEPH, "_ZN10ProtocolV213write_messageEP7Messageb", USES_LIBRBD,
	  false },
	{ "librbd_answered", LIBCEPH,
	  "_ZN13DispatchQueue13fast_dispatchERKN5boost13intrusive_ptrI7MessageEE", USES_LIBRBD,
	  false },
};

#define TIMES_ASKED 20
#define UPROBES (sizeof(uprobes) / sizeof(uprobes[0]))

/* The first of a program's. */
static const struct uprobe *find(const char *program)
{
	for (unsigned int i = 0; i < UPROBES; i++) {
		if (!strcmp(uprobes[i].program, program))
			return &uprobes[i];
	}
	return NULL;
}

bool uprobes_name(const char *program, char *point, size_t size)
{
	const struct uprobe *uprobe = find(program);

	if (uprobe)
		snprintf(point, size, "%s:%s", uprobe->file, uprobe->function);
	return uprobe;
}

/* What of a process's memory is executed: of a file if its name is not empty. */
struct mapping {
	unsigned long begin, end, offset;
	char name[PATH_MAX];
};

static FILE *maps_of(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	return fopen(path, "re");
}

static bool next_mapping(FILE *maps, struct mapping *mapping)
{
	char line[PATH_MAX + 128];

	while (fgets(line, sizeof(line), maps)) {
		char *name, executable;

		if (sscanf(line, "%lx-%lx %*c%*c%c%*c %lx", &mapping->begin, &mapping->end,
			   &executable, &mapping->offset) != 4 ||
		    executable != 'x')
			continue;
		name = strchr(line, '/');
		snprintf(mapping->name, sizeof(mapping->name), "%s", name ? name : "");
		mapping->name[strcspn(mapping->name, "\n")] = 0;
		if (strstr(mapping->name, " (deleted)"))
			*strstr(mapping->name, " (deleted)") = 0;
		return true;
	}
	return false;
}

/* It leads there from here whatever the process's root is, and whether or not it was removed. */
static void path_to(pid_t pid, const struct mapping *mapping, char *path, size_t size)
{
	snprintf(path, size, "/proc/%d/map_files/%lx-%lx", pid, mapping->begin, mapping->end);
}

/* A file that a process has mapped, by such a path. */
static bool find_mapped(pid_t pid, const char *pattern, char *path, size_t size)
{
	struct mapping mapping;
	bool found = false;
	FILE *maps = maps_of(pid);

	while (maps && !found && next_mapping(maps, &mapping)) {
		const char *slash = strrchr(mapping.name, '/');

		found = slash && !fnmatch(pattern, slash + 1, 0);
		path_to(pid, &mapping, path, size);
	}
	if (maps)
		fclose(maps);
	return found;
}

/* The same, of what has a function at an address, and where in that it is; what was written to
 * memory is of no file. */
static bool find_function(pid_t pid, unsigned long address, char *path, size_t size, size_t *offset)
{
	struct mapping mapping;
	bool found = false;
	FILE *maps = maps_of(pid);

	while (maps && !found && next_mapping(maps, &mapping)) {
		found = mapping.name[0] && address >= mapping.begin && address < mapping.end;
		*offset = address - mapping.begin + mapping.offset;
		path_to(pid, &mapping, path, size);
	}
	if (maps)
		fclose(maps);
	return found;
}

/* It may be dead and not buried yet. */
static bool has_ended(pid_t pid)
{
	char path[64], target[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, target, sizeof(target)) < 0;
}

static struct mapped *find_known(const struct probes *probes, const struct uprobe *uprobe,
				 pid_t pid)
{
	for (unsigned int i = 0; i < probes->mapped_count; i++) {
		if (probes->mapped[i].pid == pid && probes->mapped[i].uprobe == uprobe)
			return &probes->mapped[i];
	}
	return NULL;
}

/* link NULL: it is not attached, and would not be the next time. */
static void remember(struct probes *probes, const struct uprobe *uprobe, pid_t pid,
		     struct bpf_link *link, unsigned int asked_again)
{
	size_t size = (probes->mapped_count + 1) * sizeof(*probes->mapped);
	struct mapped *mapped = realloc(probes->mapped, size);

	if (!mapped) {
		bpf_link__destroy(link);
		return;
	}
	probes->mapped = mapped;
	mapped[probes->mapped_count++] = (struct mapped){ pid, uprobe, link, asked_again };
}

struct attachment {
	struct probes *probes;
	struct probe *probe;
	const struct uprobe *uprobe;
	const struct bpf_program *program;
	const char *file; /* that was looked for last in what the process has mapped, or NULL */
	char path[64];    /* to that, empty: it is not mapped */
};

struct round {
	struct probes *probes;
	const char *program; /* NULL: all of them */
};

/* One process that can be looked at is enough: what another lacks does not count then. */
static void refuse(const struct attachment *to, int error, pid_t pid, const char *why)
{
	struct probe *probe = to->probe;

	if (!probe->error)
		return;
	probe->error = error;
	snprintf(probe->text, sizeof(probe->text), "%s of process %d: %s", to->uprobe->file, pid,
		 why);
}

static struct bpf_link *link_to(const struct attachment *to, pid_t pid, const char *path)
{
	const struct uprobe *uprobe = to->uprobe;
	LIBBPF_OPTS(bpf_uprobe_opts, options, .func_name = uprobe->function,
		    .retprobe = uprobe->at_return);
	struct bpf_link *link;

	if (uprobe->duties & DUTY_BIT(osd))
		options.bpf_cookie = osd_number(pid) + 1;
	link = bpf_program__attach_uprobe_opts(to->program, pid, path, 0, &options);
	if (!link && errno == EOPNOTSUPP) {
		/* Since Linux 82e6b1eee6a8 (in v5.15): else which OSD it is remains unknown. */
		options.bpf_cookie = 0;
		link = bpf_program__attach_uprobe_opts(to->program, pid, path, 0, &options);
	}
	return link;
}

/* What a process has mapped is long to read: once for all functions of a file, which are in a row. */
static bool look_up(struct attachment *to, pid_t pid)
{
	if (!to->file || strcmp(to->file, to->uprobe->file)) {
		to->file = to->uprobe->file;
		if (!find_mapped(pid, to->file, to->path, sizeof(to->path)))
			to->path[0] = 0;
	}
	return to->path[0];
}

static void attach(struct attachment *to, pid_t pid)
{
	struct mapped *known = find_known(to->probes, to->uprobe, pid);
	struct bpf_link *link;
	int error;

	if (known && !known->asked_again)
		return;
	/* A library may be mapped a little later, or never: then that is none of its duties. */
	if (!look_up(to, pid)) {
		if (known)
			known->asked_again--;
		else
			remember(to->probes, to->uprobe, pid, NULL, TIMES_ASKED);
		return;
	}
	link = link_to(to, pid, to->path);
	error = link ? 0 : -errno;
	if (known)
		*known = (struct mapped){ pid, to->uprobe, link, 0 };
	else
		remember(to->probes, to->uprobe, pid, link, 0);
	if (!error)
		to->probe->error = 0;
	else if (error == -ENOENT)
		refuse(to, -ENOSYS, pid, "it has no such symbol");
	else
		refuse(to, error, pid, strerror(-error));
}

static bool is_meant(const struct uprobe *uprobe, const char *program)
{
	return !program || !strcmp(uprobe->program, program);
}

/* NULL: it is not loaded. */
static struct bpf_program *program_of(const struct probes *probes, const struct uprobe *uprobe)
{
	struct bpf_program *program =
		bpf_object__find_program_by_name(probes->skeleton->obj, uprobe->program);

	return program && bpf_program__fd(program) >= 0 ? program : NULL;
}

static void attach_all(pid_t pid, unsigned int duties, void *context)
{
	const struct round *round = context;
	struct attachment to = { .probes = round->probes };

	for (to.uprobe = uprobes; to.uprobe < uprobes + UPROBES; to.uprobe++) {
		if (!(to.uprobe->duties & duties) || !is_meant(to.uprobe, round->program))
			continue;
		to.program = program_of(round->probes, to.uprobe);
		if (!to.program)
			continue;
		to.probe = probes_find(round->probes, to.uprobe->program);
		attach(&to, pid);
	}
}

/* Whose functions any of the loaded programs looks at: nobody else is looked for. */
static unsigned int duties_wanted(const struct probes *probes)
{
	unsigned int wanted = 0;

	for (unsigned int i = 0; i < UPROBES; i++) {
		if (program_of(probes, &uprobes[i]))
			wanted |= uprobes[i].duties;
	}
	return wanted;
}

static void attach_to_all(struct probes *probes, const char *program)
{
	struct round round = { probes, program };

	duties_follow(duties_wanted(probes), attach_all, &round);
}

bool uprobes_attach(struct probes *probes, struct probe *probe)
{
	if (!find(probe->program))
		return false;
	probe->error = -ESRCH;
	snprintf(probe->text, sizeof(probe->text), "no process that does it runs");
	attach_to_all(probes, probe->program);
	if (!probe->error)
		probe->text[0] = 0;
	return true;
}

/* One at a time: each takes the kernel some tenths of a second, and nobody empties the rings. */
static void let_go_of_ended(struct probes *probes)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < probes->mapped_count; i++) {
		struct mapped mapped = probes->mapped[i];

		if (kept == i && has_ended(mapped.pid))
			bpf_link__destroy(mapped.link);
		else
			probes->mapped[kept++] = mapped;
	}
	probes->mapped_count = kept;
}

void uprobes_follow(struct probes *probes)
{
	let_go_of_ended(probes);
	attach_to_all(probes, NULL);
}

void uprobes_meet(struct probes *probes, pid_t pid)
{
	struct round round = { probes, NULL };

	attach_all(pid, DUTY_BIT(workload), &round);
}

/* What tells of it is the end of requests to Ceph's library. */
static void attach_to_function(struct probes *probes, const struct library_callback *callback)
{
	static const struct uprobe called_back = { .program = "librbd_done" };
	struct bpf_program *program =
		bpf_object__find_program_by_name(probes->skeleton->obj, called_back.program);
	struct bpf_link *link;
	char path[64];
	size_t offset;

	if (!program || bpf_program__fd(program) < 0 ||
	    !find_function(callback->pid, callback->function, path, sizeof(path), &offset))
		return;
	link = bpf_program__attach_uprobe(program, false, callback->pid, path, offset);
	if (link)
		remember(probes, &called_back, callback->pid, link, 0);
}

void uprobes_meet_functions(struct probes *probes)
{
	struct library_callback callback;

	while (!bpf_map__lookup_and_delete_elem(probes->skeleton->maps.library_callbacks, NULL, 0,
						&callback, sizeof(callback), 0))
		attach_to_function(probes, &callback);
}

void uprobes_close(struct probes *probes)
{
	while (probes->mapped_count)
		bpf_link__destroy(probes->mapped[--probes->mapped_count].link);
	free(probes->mapped);
	probes->mapped = NULL;
}
