# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a disk that takes as long for each request as it is told."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from iostrata.lab.qemu import DISKS
from iostrata.lab.schema import Amount, Count
from iostrata.lab.steps.step import Site, Step

CONFIG: Final = "/sys/kernel/config/nullb"


class NullBlock(Step, tag="null_blk", tag_field="kind", frozen=True, kw_only=True):
    """A disk in the machine's memory that completes each request after ``completion_ns``.

    ``depth``: how many it has at once.
    """

    size_mib: Count = 256
    completion_ns: Amount = 0
    depth: Count = 64

    def modules(self, machine: str) -> tuple[str, ...]:
        return ("configfs", "null_blk nr_devices=0")

    def disks(self) -> tuple[tuple[str, str], ...]:
        return ((self.machine, self.name),)

    def build(self, site: Site, down: ExitStack) -> None:
        """``irqmode`` 2: a timer completes each request, ``completion_nsec`` after its issue."""
        machine, place = site.machines[self.machine], f"{CONFIG}/{self.name}"
        settings = {
            "size": self.size_mib,
            "blocksize": 4096,
            "memory_backed": 1,
            "irqmode": 2,
            "completion_nsec": self.completion_ns,
            "hw_queue_depth": self.depth,
            "power": 1,
        }
        machine.command(
            "set -e\n"
            "mountpoint -q /sys/kernel/config || mount -t configfs config /sys/kernel/config\n"
            f"mkdir {place}\n"
            + "".join(f"echo {value} > {place}/{key}\n" for key, value in settings.items())
            # Older kernels number these devices, newer ones name them.
            + f"disk=/dev/{self.name}; [ -b $disk ] || disk=/dev/nullb$(cat {place}/index)\n"
            f"ln -s $disk {DISKS}/{self.name}"
        )
        down.callback(
            machine.command, f"rm {DISKS}/{self.name}; echo 0 > {place}/power; rmdir {place}"
        )
