# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a file system that is made and mounted."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from typing import Final, Literal

from iostrata.lab.problem import Problems
from iostrata.lab.schema import Name, Place
from iostrata.lab.steps.step import Ground, Site, Step

# What is made lazily would be written while the workload is recorded. A whole disk is discarded by
# some targets in minutes.
MAKE: Final = {
    "ext4": "mkfs.ext4 -q -F -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0",
    "xfs": "mkfs.xfs -q -f -K",
    "btrfs": "mkfs.btrfs -q -f -K",
}
PACKAGES: Final = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}


class FileSystem(Step, tag="file_system", tag_field="kind", frozen=True, kw_only=True):
    """``device``: a disk of the machine, or one that an earlier step provides there.

    ``journal``: the same, for ext4's journal if that is not on ``device`` itself.
    """

    device: Name
    journal: Name | None = None
    type: Literal["ext4", "xfs", "btrfs"] = "ext4"
    directory: Place

    def packages(self, machine: str) -> tuple[str, ...]:
        return (PACKAGES[self.type],)

    def modules(self, machine: str) -> tuple[str, ...]:
        return (self.type,)

    def mounts(self) -> tuple[str, ...]:
        return (self.directory,)

    def check(self, ground: Ground) -> Problems:
        yield from ground.unless_device("device", self.machine, self.device)
        if self.journal:
            yield from ground.unless_device("journal", self.machine, self.journal)
            if self.type != "ext4":
                yield "journal", f"this is {self.type}", "only ext4 can have one"

    def build(self, site: Site, down: ExitStack) -> None:
        machine, directory = site.machines[self.machine], shlex.quote(self.directory)
        device, make = site.device(self.machine, self.device), MAKE[self.type]
        if self.journal:
            journal = site.device(self.machine, self.journal)
            machine.command(f"mke2fs -q -F -O journal_dev -b 4096 {journal}")
            make = f"{make} -J device={journal}"
        machine.command(
            f"set -e; {make} {device}; mkdir -p {directory}\n"
            f"mount -t {self.type} {device} {directory}"
        )
        down.callback(machine.command, f"umount {directory}")
