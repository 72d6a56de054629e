// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What must be known and loaded before anything can be recorded. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <linux/btf.h>

#include <bpf/libbpf.h>

#include "session.h"
#include "types.h"
#include "iostrata.skel.h"

_Static_assert(sizeof(struct iostrata__bss) <= 4 << 20,
	       "Linux 5.10 takes no map whose value is larger: nothing would be recorded there");

/* Room for 30 ms of a core that does nothing but write, on large machines as much
 * as 256 MiB give to each CPU. */
static unsigned int default_buffer_kib(unsigned int cpus)
{
	unsigned int kib = 4096;

	while (kib > 512 && kib * cpus > 256 * 1024)
		kib /= 2;
	return kib;
}

/* Everything that BPF must know before its programs are verified. */
static int prepare(struct iostrata *skeleton, void *context)
{
	struct session *session = context;
	unsigned int cpus = session->rings.cpu_count, bytes = 4096, slots;
	int error;

	if (!session->options.buffer_kib)
		session->options.buffer_kib = default_buffer_kib(cpus);
	slots = session->options.buffer_kib * 1024 / EVENT_BYTES;

	kernel_tell(&session->kernel, skeleton);
	memcpy((void *)&skeleton->rodata->filter, &session->filter, sizeof(session->filter));
	memcpy(skeleton->bss->chosen_cgroups, session->chosen_cgroups,
	       sizeof(session->chosen_cgroups));
	skeleton->rodata->ring_slots = slots;
	skeleton->rodata->ring_shift = __builtin_ctz(slots);
	if (session->kernel.has_cmpxchg) {
		error = bpf_map__set_max_entries(skeleton->maps.slots, slots * cpus);
	} else {
		while (bytes < session->options.buffer_kib * 1024 * cpus)
			bytes *= 2;
		error = bpf_map__set_max_entries(skeleton->maps.ringbuf, bytes);
	}
	if (!error && !session->options.why)
		error = bpf_map__set_max_entries(skeleton->maps.stacks, 1);
	if (!error)
		error = bpf_map__set_autocreate(skeleton->maps.marks,
						session->kernel.functions_stood_in);
	return error ? error : devices_begin(skeleton, &session->options, &session->blocks);
}

static bool has_btf(void)
{
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	uint16_t magic = 0;
	bool has =
		fd >= 0 && read(fd, &magic, sizeof(magic)) == sizeof(magic) && magic == BTF_MAGIC;

	if (fd >= 0)
		close(fd);
	return has;
}

static void explain_load(int error, const struct session *session)
{
	char missing[64];

	privileges_missing(missing, sizeof(missing));
	if (*missing && geteuid())
		fail("recording needs root, or %s; try sudo", missing);
	else if (*missing)
		fail("eBPF was refused: root lacks %s here; give it to the container, or record outside",
		     missing);
	else if (!has_btf())
		fail("this kernel has no BTF (/sys/kernel/btf/vmlinux): it must be built with "
		     "CONFIG_DEBUG_INFO_BTF=y, as distributions' kernels since 2021 are");
	else if (error == -ENOMEM)
		fail("there is not memory enough: the recorder needs 40 MiB, and %u KiB for the ring "
		     "of each of %u CPUs; raise the control group's limit, or try a smaller --buffer",
		     session->options.buffer_kib, session->rings.cpu_count);
	else if (error == -EMFILE)
		fail("eBPF programs cannot be loaded: %s", limits_text(error));
	else
		fail("eBPF programs cannot be loaded: %s; is BPF forbidden, by "
		     "lockdown=confidentiality or a container's seccomp filter?",
		     strerror(-error));
}

int session_load(struct session *session)
{
	int error = limits_check_namespaces(), cpus;
	struct types types;
	char missing[64];

	if (error)
		return error;
	limits_raise();
	session->uevents_fd = uevents_open();
	session->mounts_fd = mounts_open();
	error = blocks_collect(&session->blocks);
	if (error) {
		fail("/sys/class/block cannot be read: %s; is sysfs mounted?", strerror(-error));
		return error;
	}
	/* Those that are offline may come while it records. */
	cpus = cpus_limit("/sys/devices/system/cpu/present");
	if (cpus < 0)
		return cpus;
	session->rings.cpu_count = cpus;
	error = filter_fill(&session->filter, session->chosen_cgroups, &session->options);
	if (error)
		return error;
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	privileges_missing(missing, sizeof(missing));
	error = *missing ? -EPERM : types_open(&types);
	if (!error) {
		kernel_look(&session->kernel, &types);
		if (session->options.ringbuf)
			session->kernel.has_cmpxchg = false;
		session->probes.has_cmpxchg = session->kernel.has_cmpxchg;
		session->probes.fentry_error = session->kernel.fentry_error;
		session->probes.functions_stood_in = session->kernel.functions_stood_in;
		session->probes.points_stood_in = session->kernel.points_stood_in;
		kernel_mount_tracefs();
		error = probes_load(&session->probes, &types, &session->options, prepare, session);
	}
	if (error && error != -ENODEV)
		explain_load(error, session);
	return error;
}
