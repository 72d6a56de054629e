# SPDX-License-Identifier: Apache-2.0
"""The way from a guest to the machine that runs it, and back."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility
from iostrata.trace.layout import THREAD_VMM

VIRTIO: Final = Declaration(
    rows=(
        Row(
            "kvm.exit",
            "hypervisor",
            "virtual CPU left guest mode, until it entered again",
            ("kvm_exit",),
            "the guest does what its processor cannot do alone: devices that are emulated, "
            "interrupts without hardware help, memory that is not backed by huge pages, a "
            "hypervisor below this one.",
            "#ef9a9a",
            "host",
            reasoned=True,
        ),
        Row(
            "vcpu.runqueue",
            "hypervisor",
            "virtual CPU runnable, but without a CPU or out of quota",
            ("sched_resume", "kvm_exit"),
            "the host has more virtual CPUs to run than CPUs, or a quota (cgroup `cpu.max`) stops "
            "them. Pin them, or give them more.",
            "#b71c1c",
            "host",
            cause="waiting for a CPU",
            queued=True,
            contended=True,
        ),
        Row(
            "virtio.submit",
            "upper OS",
            "guest's driver: issued until the device was told",
            ("block_rq_issue", "virtio_add", "virtio_notify"),
            "telling the device is slow: it is an exit to the host. Many requests told at once "
            "take one.",
            "#bcaaa4",
            "host",
        ),
        Row(
            "vmm.submit",
            "hypervisor",
            "device told until the VMM's system call",
            ("virtio_notify", "syscall"),
            "the VMM is slow to take a request up or to start its own write: one thread serves "
            "all disks (give the disk an iothread), or all workers are busy.",
            "#f06292",
            "host",
        ),
        Row(
            "vmm.runqueue",
            "hypervisor",
            "thread of the VMM runnable, but without a CPU",
            ("sched_resume",),
            "the host runs something else where the VMM's thread should run.",
            "#880e4f",
            "host",
            cause="waiting for a CPU",
            queued=True,
            contended=True,
        ),
        Row(
            "vmm.complete",
            "hypervisor",
            "VMM's system call done until it asked for an interrupt",
            ("syscall", "kvm_msi"),
            "the VMM knows that the write is done and does not tell: its main loop is busy, or "
            "completions are batched.",
            "#ec407a",
            "host",
        ),
        Row(
            "kvm.inject",
            "hypervisor",
            "interrupt asked for until the guest took it (VFIO: until the request's end)",
            ("kvm_msi", "virtio_interrupt", "vfio_interrupt", "block_rq_complete"),
            "the virtual CPU that should take the interrupt does not run, or must be kicked out "
            "of guest mode first, which posted interrupts spare.",
            "#e57373",
            "host",
        ),
        Row(
            "virtio.interrupt",
            "upper OS",
            "guest's driver: interrupt until the request was complete",
            ("virtio_interrupt", "block_rq_complete"),
            "the guest's interrupt handler is late: interrupts off, or many completions in one.",
            "#8d6e63",
            "host",
        ),
    ),
    ranks=(
        Rank("kvm.exit", "kvm.exit", Depth.WAY),
        Rank("virtio.submit", "virtio.submit", Depth.WAY),
        Rank("kvm.inject", "kvm.inject", Depth.WAY),
        Rank("virtio.interrupt", "virtio.interrupt", Depth.WAY),
        # A virtual CPU that cannot run matters until the VMM has been told, and once it is done.
        Rank("vcpu.runqueue", "vcpu.runqueue", Depth.WAY),
        Rank("vmm.submit", "vmm.submit", Depth.WAY),
        Rank("vmm.complete", "vmm.complete", Depth.WAY),
        Rank("vmm.runqueue", "vmm.runqueue", Depth.WAY),
    ),
    programs=(
        Programs("virtio", hops=frozenset({"virtio", "ninep"})),
        Programs("kvm", thread=THREAD_VMM),
    ),
    visibility=(
        Visibility(
            "virtio",
            ("virtio",),
            "a guest's way to its host cannot be told from the host's work",
            absent="this machine has no virtio devices",
            role="guest",
        ),
        Visibility(
            "kvm",
            ("kvm",),
            "what virtual CPUs wait for is shown as the guest's own time",
            absent="KVM is not loaded: this machine runs no virtual machines",
            debugfs="debugfs is not mounted: guests' clocks are tied to this one's less exactly; "
            "try: mount -t debugfs debugfs /sys/kernel/debug",
            role="host",
        ),
    ),
)
