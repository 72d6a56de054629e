# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a machine's declaration in, QEMU's command line out.

All paths in it are relative to the machine's directory, QEMU's working directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from iostrata.errors import LabError
from iostrata.lab.kernels import Kernel
from iostrata.lab.links import Plug
from iostrata.lab.topology import Disk, Machine

ACCELERATOR: Final = "IOSTRATA_LAB_ACCEL"
ACCELERATORS: Final = ("kvm", "tcg")
# Emulated KVM offers XSAVE, but not as the oldest and newest kernels need it; nor AVX without it.
NESTED: Final = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": ("-accel", "kvm", "-cpu", "host,-xsave,-avx"),
}

CONSOLE: Final = "console.log"
INITRAMFS: Final = "initramfs"
EXCHANGE: Final = "exchange"
# The disk with the root of all nested machines; where machines see their disks, by name: links
# that the agent makes, and steps.
ROOT: Final = "nested-root"
DISKS: Final = "/run/disks"
# Where machines see their ports, by name.
PORTS: Final = "/run/ports"
CONTROL: Final = "control"
RECORDER: Final = "recorder"
MONITOR: Final = "monitor"


def accelerator() -> str:
    """What the environment says; else KVM, where this machine's CPU offers it to us."""
    chosen = os.environ.get(ACCELERATOR, "")
    if chosen and chosen not in ACCELERATORS:
        raise LabError(
            f"{ACCELERATOR}={chosen}: there is no such accelerator",
            f"give one of {', '.join(ACCELERATORS)}",
        )
    if chosen:
        return chosen
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        flags = ""
    # Without the CPU's flag, /dev/kvm may exist but run only some kernels.
    if os.access("/dev/kvm", os.R_OK | os.W_OK) and re.search(r"\b(svm|vmx)\b", flags):
        return "kvm"
    return "tcg"


def processor(machine: Machine) -> str:
    """What runs that of a machine on this one."""
    return "tcg" if machine.hardware.foreign else accelerator()


def racing(machine: Machine) -> bool:
    """Whether its kernel may hang while probes are attached.

    QEMU 7.2 drops the translation of an instruction before a new one is stored, so another
    emulated CPU can translate the old one meanwhile, and keep it. Where Linux patches its code
    (static keys, fentry) that is a breakpoint which is there no more: both CPUs then trap on it
    for ever. Nested machines have one emulator's thread between them, as have those with one CPU;
    ``thread=single`` is no way out: CPUs then wait up to 100 ms for their turn.
    """
    return machine.cpus > 1 and not machine.nested and processor(machine) == "tcg"


def slot(name: str) -> str:
    """Where what bears that name can be plugged into a nested machine."""
    return f"slot-{name}"


def kernel_disk(machine: Machine) -> str:
    """The disk with the kernel of a nested machine; a disk's name has 20 characters at most."""
    return f"{machine.name}.elf"


def image(disk: Disk) -> str:
    return f"{disk.name}.img"


def command_line(
    machine: Machine,
    kernel: Kernel,
    plugs: Iterable[Plug],
    ports: Mapping[str, str],
    handed_on: Mapping[str, Path],
    packages: Path | None = None,
    root: Path = Path("/"),
) -> list[str]:
    """Of a machine on this one, whose root it shares, or has another one.

    ``ports``: paths by name. ``handed_on``: files that it sees as disks that can't be written.
    ``packages``: files that it has above those of the root.
    """
    accelerated = machine.hardware.accelerators[processor(machine)]
    return [
        *_any(machine, accelerated, str(kernel.image), ports),
        *_share("root", str(root), ",readonly=on,multidevs=remap"),
        *_share("modules", str(kernel.modules), ",readonly=on"),
        *(_share("packages", str(packages), ",readonly=on") if packages else ()),
        *(word for disk in machine.disks for word in _disk(disk)),
        *(word for name, path in handed_on.items() for word in _file(name, str(path))),
        *(word for plug in plugs for word in _interface(plug)),
    ]


def nested_command_line(
    machine: Machine,
    plugs: Iterable[Plug] = (),
    slots: Iterable[str] = (),
    shares: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Of a machine within another, whose ports it is handed on.

    ``slots``: names of what is to be plugged in; ``shares``: directories that devices are to
    serve, by name.
    """
    ports = {name: f"{PORTS}/{machine.name}.{name}" for name in (CONTROL, RECORDER)}
    return [
        *_any(machine, NESTED[accelerator()], f"/run/{kernel_disk(machine)}", ports),
        *_file("root", f"{DISKS}/{ROOT}"),
        *(word for number, name in enumerate(slots, 1) for word in _slot(name, number)),
        *(word for name, path in shares.items() for word in _served(name, path)),
        *(word for plug in plugs for word in _interface(plug, machine.vhost)),
        *("-chardev", f"pipe,id={MONITOR},path={PORTS}/{machine.name}.{MONITOR}"),
        *("-mon", f"chardev={MONITOR},mode=control"),
    ]


def _any(
    machine: Machine, accelerator: Sequence[str], kernel: str, ports: Mapping[str, str]
) -> Iterator[str]:
    hardware = machine.hardware
    yield from (hardware.program, "-nodefaults", "-no-reboot", "-display", "none")
    memory = ",memory-backend=memory" if machine.shared_memory else ""
    yield from ("-machine", f"{hardware.board}{memory}")
    yield from hardware.firmware
    yield from accelerator
    yield from ("-name", f"{machine.name},debug-threads=on")
    yield from ("-smp", str(machine.cpus), "-m", str(machine.memory_mib))
    if machine.shared_memory:
        size = f"size={machine.memory_mib}M"
        yield from ("-object", f"memory-backend-memfd,id=memory,share=on,{size}")
    yield from ("-serial", f"file:{CONSOLE}")
    words = f"{hardware.boot} {hardware.poll}" if machine.poll else hardware.boot
    words = " ".join((words, *machine.parameters))
    if machine.iommu:
        # Before the devices that are behind it.
        yield from ("-device", "intel-iommu,intremap=on,eim=off,caching-mode=on")
        words = f"{words} intel_iommu=on"
    yield from ("-kernel", kernel, "-initrd", INITRAMFS, "-append", words)
    yield from _share("exchange", EXCHANGE, "")
    yield from ("-device", "virtio-serial-pci")
    for name, path in ports.items():
        yield from ("-chardev", f"pipe,id={name},path={path}")
        yield from ("-device", f"virtserialport,chardev={name},name={name}")


def _share(tag: str, path: str, more: str) -> Iterator[str]:
    yield from ("-virtfs", f"local,mount_tag={tag},path={path},security_model=none{more}")


def _served(name: str, path: str) -> Iterator[str]:
    # QEMU looks for it only once a device is plugged in.
    yield from ("-fsdev", f"local,id={name},path={path},security_model=none")


def _file(name: str, path: str) -> Iterator[str]:
    yield from ("-drive", f"if=none,id={name},file={path},format=raw,readonly=on")
    yield from ("-device", f"virtio-blk-pci,drive={name},serial={name}")


def _disk(disk: Disk) -> Iterator[str]:
    name = disk.name
    if disk.latency_ns:
        size = disk.size_mib << 20
        latency = f"size={size},latency-ns={disk.latency_ns},read-zeroes=on"
        yield from ("-blockdev", f"driver=null-co,node-name={name},{latency}")
    else:
        backing = f"file={image(disk)},format=raw,cache=none,aio=threads,discard=unmap"
        yield from ("-drive", f"if=none,id={name},{backing}")
    driver = {"virtio-blk": "virtio-blk-pci", "nvme": "nvme"}[disk.bus]
    yield from ("-device", f"{driver},drive={name},serial={name}")


def _slot(name: str, number: int) -> Iterator[str]:
    yield from ("-device", f"pcie-root-port,id={slot(name)},chassis={number}")


def _interface(plug: Plug, vhost: bool = False) -> Iterator[str]:
    yield "-netdev"
    if plug.tap:
        kernel = ",vhost=on" if vhost else ""
        yield f"tap,id={plug.link},ifname={plug.tap},script=no,downscript=no{kernel}"
    else:
        yield f"stream,id={plug.link},server=off,addr.type=fd,addr.str={plug.descriptor}"
    yield from ("-device", f"virtio-net-pci,netdev={plug.link},mac={plug.mac}")
