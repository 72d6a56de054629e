// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The command line. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

static const char help[] =
	"Usage: iostrata-record -o DIR [FILTER...] [OPTION...] [-- COMMAND ARG...]\n"
	"Record where synchronous writes spend their time, as a CTF trace in DIR.\n"
	"\n"
	"  -o, --output DIR     new (or empty) directory for the trace\n"
	"      --force          use DIR even if it holds a trace: that is removed\n"
	"      --duration S     stop after S seconds\n"
	"      --buffer KIB     ring size a CPU (default 4096, a power of two)\n"
	"      --detail         also record requests being allocated and inserted\n"
	"      --why            also record in which function of the kernel each sleep was\n"
	"      --who            also record who had the CPUs and journals waited for\n"
	"      --no-names       record no paths of files\n"
	"      --op WHAT        sync (default), or besides: direct, what is read past the page cache;\n"
	"                       read or all, whatever is read\n"
	"      --packets PORT   also record the packets of TCP to and from servers' PORT (NFS: 2049),\n"
	"                       at each network device; may be given several times\n"
	"      --compress       write the packets of CPUs as frames of zstd, cpu_N.zst: a seventh of\n"
	"                       the size, for more of the recorder's time\n"
	"      --stats          also record what each BPF program costs (costs a little itself)\n"
	"      --status-fd N    write ready, progress, exit/signal, failed and done lines to\n"
	"                       descriptor N (2: each behind a byte 0x1e, among COMMAND's own); stop\n"
	"                       when nobody reads it any more\n"
	"      --control-fd N   stop when descriptor N ends, or is silent for a minute; COMMAND\n"
	"                       begins at a line `go` there; `clock` is answered by `clock NANOSECONDS`\n"
	"                       (CLOCK_MONOTONIC); after `mark WORD`, lines on descriptor 2 are behind\n"
	"                       0x1e, WORD and a space, which COMMAND does not know; the table of\n"
	"                       --probes is told before ready\n"
	"      --probes         load and attach everything, say what works, record nothing\n"
	"      --ringbuf        use a BPF ring buffer, as on kernels before 5.12\n"
	"      --version, --help\n"
	"\n"
	"Filters (all kinds given must match, one of each kind is enough; default: the process\n"
	"tree of COMMAND; with another than --device, COMMAND only sets how long):\n"
	"      --pid P          the process tree of P\n"
	"      --comm NAME      threads of that name\n"
	"      --cgroup PATH    threads in that cgroup (version 2) or below\n"
	"      --all            every process\n"
	"      --path           what this machine does for others (virtual machines, nfsd, virtiofsd,\n"
	"                       OSDs, ...): instead of a workload, unless one is named by the above\n"
	"      --duty NAME      what this machine does, more exactly: workload, vmm, nfsd, virtiofs,\n"
	"                       nbd, osd, nvmet, target, tgt, qemu_nbd, storage_daemon; may be\n"
	"                       given several times\n"
	"      --device DEV     only files on this device (/dev/... or MAJ:MIN)\n"
	"\n"
	"Exit status: COMMAND's own (128+N if signal N ended it); 125 the recorder failed,\n"
	"126 COMMAND cannot be executed, 127 it was not found; 128+N, too, if signal N asked it\n"
	"to end before it recorded.\n"
	"\n"
	"Examples:\n"
	"  iostrata-record -o /tmp/trace -- pg_test_fsync -s 1\n"
	"  iostrata-record -o /tmp/trace --comm postgres --duration 10\n"
	"  iostrata-record -o /tmp/trace --all --device /dev/vda -- sleep 5\n"
	"  iostrata-record -o /tmp/trace --path --duration 60\n"
	"  babeltrace2 /tmp/trace | head\n";

enum option_key {
	OPTION_FORCE = 256,
	OPTION_DURATION,
	OPTION_BUFFER,
	OPTION_DETAIL,
	OPTION_STATS,
	OPTION_WHY,
	OPTION_WHO,
	OPTION_NO_NAMES,
	OPTION_COMPRESS,
	OPTION_OP,
	OPTION_PACKETS,
	OPTION_STATUS_FD,
	OPTION_CONTROL_FD,
	OPTION_PROBES,
	OPTION_RINGBUF,
	OPTION_VERSION,
	OPTION_HELP,
	OPTION_PID,
	OPTION_COMM,
	OPTION_CGROUP,
	OPTION_ALL,
	OPTION_PATH,
	OPTION_DUTY,
	OPTION_DEVICE,
};

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "force", no_argument, NULL, OPTION_FORCE },
	{ "duration", required_argument, NULL, OPTION_DURATION },
	{ "buffer", required_argument, NULL, OPTION_BUFFER },
	{ "detail", no_argument, NULL, OPTION_DETAIL },
	{ "stats", no_argument, NULL, OPTION_STATS },
	{ "why", no_argument, NULL, OPTION_WHY },
	{ "who", no_argument, NULL, OPTION_WHO },
	{ "no-names", no_argument, NULL, OPTION_NO_NAMES },
	{ "compress", no_argument, NULL, OPTION_COMPRESS },
	{ "op", required_argument, NULL, OPTION_OP },
	{ "packets", required_argument, NULL, OPTION_PACKETS },
	{ "status-fd", required_argument, NULL, OPTION_STATUS_FD },
	{ "control-fd", required_argument, NULL, OPTION_CONTROL_FD },
	{ "probes", no_argument, NULL, OPTION_PROBES },
	{ "ringbuf", no_argument, NULL, OPTION_RINGBUF },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ "pid", required_argument, NULL, OPTION_PID },
	{ "comm", required_argument, NULL, OPTION_COMM },
	{ "cgroup", required_argument, NULL, OPTION_CGROUP },
	{ "all", no_argument, NULL, OPTION_ALL },
	{ "path", no_argument, NULL, OPTION_PATH },
	{ "duty", required_argument, NULL, OPTION_DUTY },
	{ "device", required_argument, NULL, OPTION_DEVICE },
	{},
};

/* A number in [low, high], else false. */
static bool number(const char *text, double low, double high, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	return !errno && end != text && !*end && *value >= low && *value <= high;
}

static int refuse(const char *what, const char *value)
{
	fail("--%s %s makes no sense; see iostrata-record --help", what, value);
	return -EINVAL;
}

static int append(const char **list, unsigned int *count, const char *what, const char *value)
{
	if (!*value)
		return refuse(what, "''");
	if (*count == MAX_NAMES) {
		fail("--%s was given more than %d times", what, MAX_NAMES);
		return -EINVAL;
	}
	list[(*count)++] = value;
	return 0;
}

static int add_duty(struct options *options, const char *name)
{
	int number = duties_number(name);

	if (number < 0)
		return refuse("duty", name);
	options->duties |= 1u << number;
	return 0;
}

static int add_port(struct options *options, const char *value)
{
	double parsed;

	if (!number(value, 1, 65535, &parsed) || parsed != (unsigned short)parsed)
		return refuse("packets", value);
	if (options->port_count == MAX_PORTS) {
		fail("--packets was given more than %d times", MAX_PORTS);
		return -EINVAL;
	}
	options->ports[options->port_count++] = parsed;
	return 0;
}

/* What is written or made durable is recorded with each of them. */
static int set_op(struct options *options, const char *name)
{
	static const struct {
		const char *name;
		enum reads_recorded reads;
	} ops[] = { { "sync", READS_NONE },
		    { "direct", READS_DIRECT },
		    { "read", READS_EVERY },
		    { "all", READS_EVERY } };

	for (unsigned int i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i].name, name))
			continue;
		options->reads = ops[i].reads;
		return 0;
	}
	return refuse("op", name);
}

static int parse_number(struct options *options, int key, const char *value)
{
	double parsed;

	switch (key) {
	case OPTION_DURATION:
		if (!number(value, 1e-3, 1e7, &options->duration_s))
			return refuse("duration", value);
		return 0;
	case OPTION_BUFFER:
		if (!number(value, 4, 1 << 20, &parsed) ||
		    ((unsigned int)parsed & ((unsigned int)parsed - 1)) ||
		    parsed != (unsigned int)parsed) {
			fail("--buffer %s: the ring size must be a power of two, 4 to 1048576 KiB",
			     value);
			return -EINVAL;
		}
		options->buffer_kib = parsed;
		return 0;
	case OPTION_STATUS_FD:
		if (!number(value, 0, 1 << 20, &parsed))
			return refuse("status-fd", value);
		return status_to(parsed);
	case OPTION_CONTROL_FD:
		if (!number(value, 0, 1 << 20, &parsed))
			return refuse("control-fd", value);
		options->control_fd = parsed;
		return 0;
	default:
		if (!number(value, 1, 1 << 22, &parsed))
			return refuse("pid", value);
		if (options->pid_count == MAX_NAMES) {
			fail("--pid was given more than %d times", MAX_NAMES);
			return -EINVAL;
		}
		options->pids[options->pid_count++] = parsed;
		return 0;
	}
}

static int parse_one(struct options *options, int key, const char *value)
{
	switch (key) {
	case 'o':
		options->directory = value;
		return 0;
	case OPTION_FORCE:
		options->force = true;
		return 0;
	case OPTION_DETAIL:
		options->detail = true;
		return 0;
	case OPTION_STATS:
		options->stats = true;
		return 0;
	case OPTION_WHY:
		options->why = true;
		return 0;
	case OPTION_WHO:
		options->who = true;
		return 0;
	case OPTION_NO_NAMES:
		options->no_names = true;
		return 0;
	case OPTION_COMPRESS:
		options->compress = true;
		return 0;
	case OPTION_OP:
		return set_op(options, value);
	case OPTION_PACKETS:
		return add_port(options, value);
	case OPTION_PROBES:
		options->probes = true;
		return 0;
	case OPTION_RINGBUF:
		options->ringbuf = true;
		return 0;
	case OPTION_ALL:
		options->all = true;
		return 0;
	case OPTION_PATH:
		options->duties |= DUTIES_SERVING;
		return 0;
	case OPTION_DUTY:
		return add_duty(options, value);
	case OPTION_COMM:
		return append(options->comms, &options->comm_count, "comm", value);
	case OPTION_CGROUP:
		return append(options->cgroups, &options->cgroup_count, "cgroup", value);
	case OPTION_DEVICE:
		return append(options->devices, &options->device_count, "device", value);
	case '?':
		fail("unknown or incomplete option; see iostrata-record --help");
		return -EINVAL;
	default:
		return parse_number(options, key, value);
	}
}

static bool names_targets(const struct options *options)
{
	return options->pid_count || options->comm_count || options->cgroup_count || options->all;
}

static int check(const struct options *options)
{
	if (options->probes)
		return 0;
	if (!options->directory) {
		fail("no directory to record into: give -o DIR; see iostrata-record --help");
		return -EINVAL;
	}
	if (options->duties & DUTY_BIT(workload) && !options->command && !names_targets(options)) {
		fail("nothing to record: give a command after --, or --pid, --comm, --cgroup, --all or --path");
		return -EINVAL;
	}
	return 0;
}

int options_parse(struct options *options, int argc, char **argv)
{
	int key;

	*options = (struct options){ .control_fd = -1 };
	while ((key = getopt_long(argc, argv, "+o:h", long_options, NULL)) != -1) {
		if (key == OPTION_HELP || key == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (key == OPTION_VERSION) {
			puts("iostrata-record " IOSTRATA_VERSION);
			return 0;
		}
		if (parse_one(options, key, optarg))
			return STATUS_FAILED;
	}
	if (optind < argc)
		options->command = argv + optind;
	if (options->probes)
		options->duties = DUTIES_SERVING | DUTY_BIT(workload);
	/* A device by itself: whoever writes to it. */
	if (options->device_count && !options->command && !options->duties)
		options->all |= !names_targets(options);
	if (!options->duties || names_targets(options))
		options->duties |= DUTY_BIT(workload);
	return check(options) ? STATUS_FAILED : -1;
}

static void add(char *text, size_t size, const char *format, const char *value)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, format, value);
}

void options_describe_filter(const struct options *options, char *text, size_t size)
{
	char pid[16];

	text[0] = 0;
	for (unsigned int i = 0; i < options->pid_count; i++) {
		snprintf(pid, sizeof(pid), "%d", options->pids[i]);
		add(text, size, " --pid %s", pid);
	}
	for (unsigned int i = 0; i < options->comm_count; i++)
		add(text, size, " --comm %s", options->comms[i]);
	for (unsigned int i = 0; i < options->cgroup_count; i++)
		add(text, size, " --cgroup %s", options->cgroups[i]);
	for (unsigned int i = 0; i < options->device_count; i++)
		add(text, size, " --device %s", options->devices[i]);
	if (options->all)
		add(text, size, " %s", "--all");
	if (options->duties == DUTIES_SERVING)
		add(text, size, " %s", "--path");
	for (unsigned int i = 0; i < DUTY_count; i++) {
		if (options->duties != DUTIES_SERVING && options->duties != DUTY_BIT(workload) &&
		    options->duties >> i & 1)
			add(text, size, " --duty %s", duties_name(i));
	}
	if (text[0])
		memmove(text, text + 1, strlen(text));
	else
		snprintf(text, size, "process tree of the command");
}

/* Takes away what is left of a UTF-8 character that was cut. */
static void end_with_a_character(char *text)
{
	size_t length = strlen(text), first = length;
	unsigned char lead;

	while (first && length - first < 3 && ((unsigned char)text[first - 1] & 0xc0) == 0x80)
		first--;
	lead = first ? text[first - 1] : 0;
	if (lead >= 0xc0 && length - first < (lead >= 0xf0 ? 3u : lead >= 0xe0 ? 2u : 1u))
		text[first - 1] = 0;
}

void options_describe_command(const struct options *options, char *text, size_t size)
{
	text[0] = 0;
	for (char **word = options->command; word && *word; word++)
		add(text, size, word == options->command ? "%s" : " %s", *word);
	if (strlen(text) + 1 == size)
		end_with_a_character(text);
}
