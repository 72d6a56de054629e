// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The events' BTF -> the trace's TSDL description (the file `metadata`). */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "record.h"

#define HEADER_BYTES 16

static const char preamble[] =
	"/* CTF 1.8 */\n"
	"\n"
	"typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
	"typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
	"typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
	"\n"
	"trace {\n"
	"\tmajor = 1;\n"
	"\tminor = 8;\n"
	"\tuuid = \"%s\";\n"
	"\tbyte_order = le;\n"
	"\tpacket.header := struct {\n"
	"\t\tuint32_t magic;\n"
	"\t\tuint8_t uuid[16];\n"
	"\t\tuint32_t stream_id;\n"
	"\t};\n"
	"};\n"
	"\n";

static const char clock_block[] = "clock {\n"
				  "\tname = monotonic;\n"
				  "\tdescription = \"CLOCK_MONOTONIC\";\n"
				  "\tfreq = 1000000000;\n"
				  "\toffset_s = %llu;\n"
				  "\toffset = %llu;\n"
				  "\tabsolute = false;\n"
				  "};\n"
				  "\n"
				  "typealias integer {\n"
				  "\tsize = 64; align = 8; signed = false;\n"
				  "\tmap = clock.monotonic.value;\n"
				  "} := monotonic_ns_t;\n"
				  "\n"
				  "stream {\n"
				  "\tid = 0;\n"
				  "\tpacket.context := struct {\n"
				  "\t\tmonotonic_ns_t timestamp_begin;\n"
				  "\t\tmonotonic_ns_t timestamp_end;\n"
				  "\t\tuint64_t content_size;\n"
				  "\t\tuint64_t packet_size;\n"
				  "\t\tuint64_t packet_seq_num;\n"
				  "\t\tuint64_t events_discarded;\n"
				  "\t\tuint32_t cpu_id;\n"
				  "\t\tuint32_t crc32;\n"
				  "\t};\n"
				  "\tevent.header := struct {\n"
				  "\t\tmonotonic_ns_t timestamp;\n"
				  "\t\tuint16_t id;\n"
				  "\t} align(512);\n"
				  "\tevent.context := struct {\n"
				  "\t\tuint16_t cpu;\n"
				  "\t\tuint32_t tid;\n"
				  "\t};\n"
				  "};\n"
				  "\n";

static void print_string(FILE *out, const char *name, const char *text)
{
	fprintf(out, "\t%s = \"", name);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		if (*text == '\n')
			fputs("\\n", out);
		else if (!iscntrl((unsigned char)*text))
			fputc(*text, out);
	}
	fputs("\";\n", out);
}

static void read_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");

	line[0] = 0;
	if (!file)
		return;
	if (fgets(line, size, file))
		line[strcspn(line, "\n")] = 0;
	fclose(file);
}

static void print_ports(FILE *out, const struct options *options)
{
	for (unsigned int i = 0; i < options->port_count; i++)
		fprintf(out, "%s%u", i ? " " : "\tpackets = \"", options->ports[i]);
	if (options->port_count)
		fputs("\";\n", out);
}

static void print_environment(FILE *out, const struct options *options)
{
	struct utsname names;
	char line[4096];

	uname(&names);
	fputs("env {\n\tiostrata_format = 1;\n", out);
	print_string(out, "iostrata_version", IOSTRATA_VERSION);
	print_string(out, "hostname", names.nodename);
	print_string(out, "kernel_release", names.release);
	print_string(out, "kernel_version", names.version);
	print_string(out, "architecture", names.machine);
	read_line("/proc/sys/kernel/random/boot_id", line, sizeof(line));
	print_string(out, "boot_id", line);
	read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", line,
		  sizeof(line));
	print_string(out, "clocksource", line);
	fprintf(out, "\tmachine_cpus = %ld;\n", sysconf(_SC_NPROCESSORS_ONLN));
	fprintf(out, "\tpage_size = %ld;\n", sysconf(_SC_PAGESIZE));
	options_describe_command(options, line, sizeof(line));
	print_string(out, "command", line);
	options_describe_filter(options, line, sizeof(line));
	print_string(out, "filter", line);
	fprintf(out, "\tdetail = %d;\n\treads = %u;\n\tbuffer_kib = %u;\n", options->detail,
		options->reads, options->buffer_kib);
	/* What a packet says was lost was so between the one before it and its own end. */
	fputs("\tloss_times = 1;\n", out);
	print_ports(out, options);
	fputs("};\n\n", out);
}

static bool ends_with(const char *name, const char *end)
{
	size_t length = strlen(name), end_length = strlen(end);

	return length >= end_length && !strcmp(name + length - end_length, end);
}

static bool is_hex(const char *name)
{
	return ends_with(name, "_key") || ends_with(name, "flags") || !strcmp(name, "lsn") ||
	       !strcmp(name, "iclog");
}

/* One field; its bytes, or 0: not a type that a trace can hold. */
static unsigned int print_field(FILE *out, const struct btf *btf, const char *name, int type_id)
{
	const struct btf_type *type =
		btf__type_by_id(btf, btf__resolve_size(btf, type_id) < 0 ? 0 : type_id);

	while (type && (btf_is_mod(type) || btf_is_typedef(type)))
		type = btf__type_by_id(btf, type->type);
	if (type && btf_is_array(type)) {
		unsigned int length = btf_array(type)->nelems;

		fprintf(out,
			"\t\tinteger { size = 8; align = 8; signed = false; encoding = UTF8; } %s[%u];\n",
			name, length);
		return length;
	}
	if (!type || !btf_is_int(type))
		return 0;
	fprintf(out, "\t\tinteger { size = %u; align = 8; signed = %s; base = %d; } %s;\n",
		type->size * 8, btf_int_encoding(type) & BTF_INT_SIGNED ? "true" : "false",
		is_hex(name) ? 16 : 10, name);
	return type->size;
}

/* One event's description; the bytes of it that hold fields, or -errno. */
static int print_event(FILE *out, const struct btf *btf, const char *name, unsigned int id,
		       const struct btf_type *type)
{
	const struct btf_member *member = btf_members(type);
	unsigned int used = HEADER_BYTES;

	fprintf(out, "event {\n\tname = \"%s\";\n\tid = %u;\n\tstream_id = 0;\n", name, id);
	fputs("\tfields := struct {\n", out);
	for (unsigned int i = 0; i < btf_vlen(type); i++) {
		const char *field = btf__name_by_offset(btf, member[i].name_off);
		unsigned int bytes;

		if (btf_member_bit_offset(type, i) < HEADER_BYTES * 8 ||
		    (i + 1u == btf_vlen(type) && !strncmp(field, "pad", 3)))
			continue;
		if (btf_member_bit_offset(type, i) != used * 8) {
			fail("the event %s has a hole before %s", name, field);
			return -EINVAL;
		}
		bytes = print_field(out, btf, field, member[i].type);
		if (!bytes)
			return -EINVAL;
		used += bytes;
	}
	fputs("\t};\n};\n\n", out);
	return used;
}

static int print_events(struct metadata *metadata, FILE *out, const struct btf *btf)
{
	int union_id = btf__find_by_name_kind(btf, "event", BTF_KIND_UNION);
	const struct btf_type *points;

	if (union_id < 0)
		return union_id;
	points = btf__type_by_id(btf, union_id);
	for (unsigned int i = 0; i + 1 < POINT_count; i++) {
		const struct btf_member *member = btf_members(points) + i;
		const char *name = btf__name_by_offset(btf, member->name_off);
		int used = print_event(out, btf, name, i + 1, btf__type_by_id(btf, member->type));

		if (used < 0)
			return used;
		metadata->used_bytes[i + 1] = used;
	}
	return 0;
}

static int print_all(struct metadata *metadata, FILE *out, const struct btf *btf)
{
	const uint8_t *u = metadata->uuid;
	char uuid[40];

	snprintf(uuid, sizeof(uuid),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
		 u[15]);
	fprintf(out, preamble, uuid);
	print_environment(out, metadata->options);
	fprintf(out, clock_block, metadata->offset_ns / NSEC_PER_SEC,
		metadata->offset_ns % NSEC_PER_SEC);
	return print_events(metadata, out, btf);
}

/* A comment at its end has the checksum of all before it: who reads it takes no changed one. */
static int write_sealed(int directory_fd, const char *text, size_t size)
{
	int fd, error = 0;
	FILE *out;

	fd = openat(directory_fd, "metadata", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0644);
	if (fd < 0)
		return -errno;
	out = fdopen(fd, "w");
	if (!out) {
		close(fd);
		return -ENOMEM;
	}
	fwrite(text, 1, size, out);
	fprintf(out, "\n/* crc32 %08x */\n", checksum((const uint8_t *)text, size));
	if (ferror(out))
		error = -EIO;
	if (fclose(out) && !error)
		error = -errno;
	return error;
}

int metadata_write(struct metadata *metadata, const struct btf *btf, int directory_fd)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int error;

	if (!out)
		return -ENOMEM;
	error = print_all(metadata, out, btf);
	if (fclose(out) && !error)
		error = -ENOMEM;
	if (!error)
		error = write_sealed(directory_fd, text, size);
	free(text);
	return error;
}
