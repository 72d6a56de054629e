# SPDX-License-Identifier: Apache-2.0
"""Lab stage: what every kind of step is: declared on a ground, checked, built on a site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from iostrata.errors import LabError
from iostrata.lab.machine import RunningMachine
from iostrata.lab.problem import Problems, unless_known
from iostrata.lab.qemu import DISKS
from iostrata.lab.schema import Name, Strict
from iostrata.lab.topology import Link, Machine

# Prints the path of the disk whose name, which is its serial number, is in $name.
FIND_DISK = f"""
    if [ -b {DISKS}/$name ]; then readlink -f {DISKS}/$name; exit; fi
    for disk in /sys/block/*; do
        serial=$(cat $disk/serial $disk/device/serial 2>/dev/null | tr -d ' ')
        [ "$serial" ] || serial=$(tail -c +5 $disk/device/vpd_pg80 2>/dev/null | tr -d '\\0 ')
        if [ "$serial" = $name ] && [ -b /dev/${{disk##*/}} ]; then
            echo /dev/${{disk##*/}}
            exit
        fi
    done
    exit 1"""


@dataclass
class Ground:
    """What a step is declared on: the machines, their links, and the steps before it, by name."""

    machines: Mapping[str, Machine]
    links: Sequence[Link]
    steps: dict[str, Step] = field(default_factory=dict)

    def add(self, step: Step) -> Problems:
        for machine, name in step.disks():
            if name in self.disks_of(machine):
                key = "name" if name == step.name else "provides"
                yield key, f"there is a disk {name} already", "choose another name"
        self.steps[step.name] = step

    def disks_of(self, machine: str) -> list[str]:
        own = [disk.name for disk in self.machines[machine].disks]
        provided = (pair for step in self.steps.values() for pair in step.disks())
        return own + [name for on, name in provided if on == machine]

    def unless_device(self, key: str, machine: str, name: str) -> Problems:
        yield from unless_known(key, name, self.disks_of(machine), "device")

    def unless_mounted(self, key: str, machine: str, place: str) -> Problems:
        steps = (step for step in self.steps.values() if step.machine == machine)
        known = [mount for step in steps for mount in step.mounts()]
        yield from unless_known(key, place, known, "mount")

    def unless_nested(self, key: str, machine: str, guest: str) -> Problems:
        guests = [each.name for each in self.machines.values() if each.nested == machine]
        yield from unless_known(key, guest, guests, "nested machine")

    def unless_linked(self, key: str, machine: str, other: str) -> Problems:
        ends = {machine, other}
        if len(ends) > 1 and not any(ends == set(link.addresses) for link in self.links):
            yield key, f"no link joins {machine} and {other}", "declare it: [[links]]"

    def links_of(self, machine: str) -> list[str]:
        return [link.name for link in self.links if machine in link.addresses]


@dataclass(frozen=True)
class Site:
    """What a step is built on: the machines, their links, and the steps before it.

    ``own_disks``: those that machines came up with. ``steps``: those built, by name, each with
    what takes it down again.
    """

    machines: Mapping[str, RunningMachine]
    links: Sequence[Link]
    own_disks: frozenset[tuple[str, str]] = frozenset()
    steps: dict[str, tuple[Step, ExitStack]] = field(default_factory=dict)

    def disks(self) -> set[tuple[str, str]]:
        """With their machines."""
        return {
            *self.own_disks,
            *(disk for step, _ in self.steps.values() for disk in step.disks()),
        }

    def address(self, machine: str, seen_from: str) -> str:
        """Of a machine, on a link that joins the two."""
        if machine == seen_from:
            return "127.0.0.1"
        for link in self.links:
            if set(link.addresses) == {machine, seen_from}:
                return link.addresses[machine].partition("/")[0]
        raise LookupError(f"no link joins {machine} and {seen_from}")

    def device(self, machine: str, name: str) -> str:
        """The path of a disk there. LabError: its kernel shows none."""
        found = self.machines[machine].try_command(f"name={name}{FIND_DISK}")
        if found.status:
            raise LabError(f"machine {machine}: its kernel shows no device for {name}")
        return found.output.strip()

    def wait_for_device(self, machine: str, name: str) -> None:
        self.machines[machine].command(f"name={name}\nuntil ({FIND_DISK}); do sleep 0.1; done")


class Step(Strict, frozen=True, kw_only=True):
    """What all kinds have. Each has a file of its own here, and is listed in ``AnyStep``."""

    name: Name
    machine: Name

    def packages(self, machine: str) -> tuple[str, ...]:
        """Debian's, which that machine, one of those involved, must have."""
        return ()

    def modules(self, machine: str) -> tuple[str, ...]:
        """Of the kernel, which that machine must have loaded; with their parameters."""
        return ()

    def involved(self) -> tuple[str, ...]:
        """Machines that must be up before it can be built."""
        return (self.machine,)

    def disks(self) -> tuple[tuple[str, str], ...]:
        """That it provides, each with its machine."""
        return ()

    def slots(self, machine: str) -> tuple[str, ...]:
        """What it plugs into that machine, by names of its own."""
        return ()

    def shares(self, machine: str) -> tuple[tuple[str, str], ...]:
        """Directories of the machine below that QEMU serves to that one, each with its name."""
        return ()

    def mounts(self) -> tuple[str, ...]:
        """Directories of its machine in which it mounts something."""
        return ()

    def check(self, ground: Ground) -> Problems:
        """What is wrong with its keys."""
        yield from ()

    def build(self, site: Site, down: ExitStack) -> None:
        """Errors: LabError. ``down`` gets what takes it down again."""
        raise NotImplementedError
