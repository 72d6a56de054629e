# SPDX-License-Identifier: Apache-2.0
"""Lab stage: whatever a shell can make of a machine: a target, an initiator, a daemon."""

from __future__ import annotations

import shlex
from contextlib import ExitStack

import msgspec

from iostrata.lab.problem import Problems, unless_known
from iostrata.lab.schema import Module, Name, NameOrPlace, Package, Place
from iostrata.lab.steps.step import Ground, Site, Step


class Service(Step, tag="service", tag_field="kind", frozen=True, kw_only=True):
    """``up``, ``ready``, ``down``: for the machine's shell. It is up once ``up`` has succeeded,
    ``ready`` is true (asked again and again) and what it provides is there.

    ``install``: Debian's packages. ``load``: modules of the kernel, each with its parameters.
    ``files``: their text, by path. ``values``: variables of the shell, to be replaced by
    injections and variants. ``needs``: what earlier steps have made, each a variable, too, unless
    it is the directory of a mount: a disk there, by its path; another step, by its machine's
    address as seen from there. In a variable's name, - is _. ``provides``: disks, named by their
    serial numbers or by links in /run/disks, and directories of mounts.
    """

    install: tuple[Package, ...] = ()
    load: tuple[Module, ...] = ()
    files: dict[Place, str] = msgspec.field(default_factory=dict)
    values: dict[Name, str | int] = msgspec.field(default_factory=dict)
    needs: tuple[NameOrPlace, ...] = ()
    up: str = ""
    ready: str = ""
    down: str = ""
    provides: tuple[NameOrPlace, ...] = ()

    def packages(self, machine: str) -> tuple[str, ...]:
        return self.install

    def modules(self, machine: str) -> tuple[str, ...]:
        return self.load

    def disks(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.machine, each) for each in self.provides if not each.startswith("/"))

    def mounts(self) -> tuple[str, ...]:
        return tuple(each for each in self.provides if each.startswith("/"))

    def check(self, ground: Ground) -> Problems:
        disks = ground.disks_of(self.machine)
        for need in self.needs:
            if need.startswith("/"):
                yield from ground.unless_mounted("needs", self.machine, need)
            elif need not in disks:
                yield from unless_known("needs", need, [*disks, *ground.steps], "disk or step")
                yield from ground.unless_linked("needs", self.machine, ground.steps[need].machine)
        for clash in {*self.needs} & {*self.values}:
            yield f"values.{clash}", "this is what a need is called", "choose another name"

    def build(self, site: Site, down: ExitStack) -> None:
        machine, variables = site.machines[self.machine], self._variables(site)
        for path, text in self.files.items():
            place = shlex.quote(path)
            machine.command(
                f"mkdir -p $(dirname {place}) && printf %s {shlex.quote(text)} >{place}"
            )
            down.callback(machine.command, f"rm -f {place}")
        if self.down:
            down.callback(machine.command, f"{variables}{self.down}")
        machine.command(f"set -e\n{variables}{self.up}")
        if self.ready:
            machine.command(f"{variables}until {{ {self.ready}\n}}; do sleep 0.1; done")
        for directory in self.mounts():
            machine.command(f"mountpoint {shlex.quote(directory)}")
        for on, disk in self.disks():
            site.wait_for_device(on, disk)

    def _variables(self, site: Site) -> str:
        known = {name: str(value) for name, value in self.values.items()}
        known |= {need: self._need(site, need) for need in self.needs if not need.startswith("/")}
        return "".join(
            f"{name.replace('-', '_')}={shlex.quote(value)}\n" for name, value in known.items()
        )

    def _need(self, site: Site, name: str) -> str:
        if (self.machine, name) in site.disks():
            return site.device(self.machine, name)
        return site.address(site.steps[name][0].machine, self.machine)
