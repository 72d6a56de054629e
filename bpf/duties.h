/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a machine does of which the threads are recorded, each defined once.  A machine can
 * do several at once: those that are asked for are a set of bits.
 *
 * A duty is done by threads of one kind, and known by
 *	.kernel_thread	the name of the kernel threads that do it,
 *	.executable	the name of the file that its processes execute, or
 *	.descriptor	what its processes hold open, as /proc/PID/fd shows it (with .module);
 * all threads of such a process do it.  The workload is known by the filters that were given, and
 * a duty of the kernel's own workers by its programs, which record who they meet.
 * .programs are layers, or programs, that are there for it: they are loaded where one of the
 * duties that name them is asked for, and what no duty names is always.
 *
 * To add one: a line here, and one in tracer/iostrata/record/duties.py.
 */
#ifndef IOSTRATA_DUTIES_H
#define IOSTRATA_DUTIES_H

#define DUTIES(D)                                                                                 \
	D(workload, .kind = THREAD_TARGET, .programs = { "virtio" })                              \
	D(vmm, .kind = THREAD_VMM, .descriptor = "anon_inode:kvm-vm", .module = "kvm",            \
	  .programs = { "kvm", "vfio", "librbd", "aio_complete_kernel" })                         \
	D(nfsd, .kind = THREAD_SERVER, .kernel_thread = "nfsd", .programs = { "svc" })            \
	D(virtiofs, .kind = THREAD_DAEMON, .executable = "virtiofsd", .programs = { "virtiofs" }) \
	D(nbd, .kind = THREAD_DAEMON, .executable = "nbd-server")                                 \
	D(osd, .kind = THREAD_DAEMON, .executable = "ceph-osd",                                   \
	  .programs = { "osd", "bluestore" })                                                     \
	D(nvmet, .kind = THREAD_HELPER, .programs = { "nvmet" })                                  \
	D(target, .kind = THREAD_SERVER, .kernel_thread = "iscsi_trx", .programs = { "target" })  \
	D(tgt, .kind = THREAD_DAEMON, .executable = "tgtd", .programs = { "librbd" })             \
	D(rbd_nbd, .kind = THREAD_DAEMON, .executable = "rbd-nbd", .programs = { "librbd" })      \
	D(qemu_nbd, .kind = THREAD_DAEMON, .executable = "qemu-nbd",                              \
	  .programs = { "librbd", "aio_complete_kernel" })                                        \
	D(storage_daemon, .kind = THREAD_DAEMON, .executable = "qemu-storage-daemon")

#define DUTY_NUMBER(name, ...) DUTY_##name,
enum duty_number {
	DUTIES(DUTY_NUMBER) DUTY_count
};
#undef DUTY_NUMBER

#define DUTY_BIT(name) (1u << DUTY_##name)
/* All that is done for other machines. */
#define DUTIES_SERVING (((1u << DUTY_count) - 1) & ~DUTY_BIT(workload))

#endif
