# SPDX-License-Identifier: Apache-2.0
"""Lab stage: steps of one machine's storage in, a delaying disk and mounted file systems out."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from typing import Final

from iostrata.errors import LabError
from iostrata.lab.machine import RunningMachine
from iostrata.lab.steps import FileSystem, NullBlock

# What is made lazily would be written while the workload is recorded.
MAKE: Final = {
    "ext4": "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0",
    "xfs": "mkfs.xfs -q -f",
    "btrfs": "mkfs.btrfs -q -f",
}
CONFIG: Final = "/sys/kernel/config/nullb"


def null_block(step: NullBlock, machine: RunningMachine, down: ExitStack) -> None:
    """``irqmode`` 2: a timer completes each request, ``completion_nsec`` after it was issued."""
    place = f"{CONFIG}/{step.name}"
    settings = {
        "size": step.size_mib,
        "blocksize": 4096,
        "memory_backed": 1,
        "irqmode": 2,
        "completion_nsec": step.completion_ns,
        "power": 1,
    }
    machine.command(
        "set -e; modprobe null_blk nr_devices=0; modprobe configfs\n"
        f"mountpoint -q /sys/kernel/config || mount -t configfs config /sys/kernel/config\n"
        f"mkdir {place}\n"
        + "".join(f"echo {value} > {place}/{key}\n" for key, value in settings.items())
    )
    down.callback(machine.command, f"echo 0 > {place}/power; rmdir {place}")


def file_system(step: FileSystem, machine: RunningMachine, down: ExitStack) -> None:
    directory = shlex.quote(step.directory)
    device = device_path(machine, step.device)
    make = MAKE[step.type]
    if step.journal:
        journal = device_path(machine, step.journal)
        machine.command(f"mke2fs -q -F -O journal_dev -b 4096 {journal}")
        make = f"{make} -J device={journal}"
    machine.command(
        # A nested machine has its modules loaded from the start, and no others.
        f"set -e; grep -qw {step.type} /proc/filesystems || modprobe {step.type}\n"
        f"{make} {device}\n"
        f"mkdir -p {directory}\n"
        f"mount -t {step.type} {device} {directory}"
    )
    down.callback(machine.command, f"umount {directory}")


def device_path(machine: RunningMachine, name: str) -> str:
    """Of a virtio disk, by its serial number, or of a null block device."""
    path = machine.command(
        f"for disk in /sys/block/vd*; do\n"
        f'  [ "$(cat $disk/serial 2>/dev/null)" != {name} ] || echo /dev/${{disk##*/}}\n'
        f"done\n"
        # Older kernels number these devices, newer ones name them.
        f"if [ -d {CONFIG}/{name} ]; then\n"
        f"  if [ -b /dev/{name} ]; then echo /dev/{name}\n"
        f"  else echo /dev/nullb$(cat {CONFIG}/{name}/index); fi\n"
        f"fi"
    ).strip()
    if not path:
        raise LabError(f"machine {machine.name}: its kernel shows no device for {name}")
    return path
