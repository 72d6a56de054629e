# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a machine's declaration in, QEMU's command line out."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from iostrata.errors import LabError
from iostrata.lab.kernels import Kernel
from iostrata.lab.scenario import Disk, Machine

PROGRAM: Final = "qemu-system-x86_64"
ACCELERATOR: Final = "IOSTRATA_LAB_ACCEL"
ACCELERATORS: Final = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max"),
}
BOOT: Final = "console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off"

# In a machine's directory, which is QEMU's working directory.
CONTROL: Final = "control"
CONSOLE: Final = "console.log"
INITRAMFS: Final = "initramfs"
EXCHANGE: Final = "exchange"


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


def image(disk: Disk) -> str:
    return f"{disk.name}.img"


def command_line(machine: Machine, kernel: Kernel) -> list[str]:
    """Paths in it are relative to the machine's directory."""
    if platform.machine() != "x86_64":
        raise LabError(f"the lab's machines are x86_64, this one is {platform.machine()}")
    return [
        PROGRAM,
        *("-nodefaults", "-no-reboot", "-display", "none", "-machine", "q35"),
        *ACCELERATORS[accelerator()],
        *("-name", machine.name, "-smp", str(machine.cpus), "-m", str(machine.memory_mib)),
        *("-serial", f"file:{CONSOLE}"),
        *("-kernel", str(kernel.image), "-initrd", INITRAMFS, "-append", BOOT),
        *_share("root", "/", ",readonly=on,multidevs=remap"),
        *_share("modules", str(kernel.modules), ",readonly=on"),
        *_share("exchange", EXCHANGE, ""),
        *("-device", "virtio-serial-pci"),
        *("-chardev", f"socket,id=control,path={CONTROL},server=on,wait=off"),
        *("-device", "virtserialport,chardev=control,name=control"),
        *(word for disk in machine.disks for word in _disk(disk)),
    ]


def _share(tag: str, path: str, more: str) -> Iterator[str]:
    yield from ("-virtfs", f"local,mount_tag={tag},path={path},security_model=none{more}")


def _disk(disk: Disk) -> Iterator[str]:
    name = disk.name
    yield "-drive"
    yield f"if=none,id={name},file={image(disk)},format=raw,cache=none,aio=threads,discard=unmap"
    yield from ("-device", f"virtio-blk-pci,drive={name},serial={name}")
