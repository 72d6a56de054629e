# SPDX-License-Identifier: Apache-2.0
"""Lab stage: whatever else QEMU can plug into a nested machine."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import msgspec

from iostrata.lab import qemu
from iostrata.lab.problem import Problems
from iostrata.lab.schema import Place
from iostrata.lab.steps.plugged import Plugged
from iostrata.lab.steps.step import Ground, Site


class Device(Plugged, tag="device", tag_field="kind", frozen=True, kw_only=True):
    """A device of ``guest``: ``driver`` and ``options`` are QEMU's own words for it.

    ``socket``: of the process on the machine below that serves it (vhost-user), and that maps the
    guest's memory. ``directory``: of that machine, which QEMU itself serves (9p).
    """

    driver: str
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    socket: Place | None = None
    directory: Place | None = None

    def shares(self, machine: str) -> tuple[tuple[str, str], ...]:
        mine = self.directory if machine == self.guest else None
        return ((self.name, mine),) if mine else ()

    def check(self, ground: Ground) -> Problems:
        yield from super().check(ground)
        if self.socket and not ground.machines[self.guest].shared_memory:
            yield "socket", f"nobody can map the memory of {self.guest}", "give it shared_memory"
        if self.directory:
            yield from ground.unless_mounted("directory", self.machine, self.directory)

    def build(self, site: Site, down: ExitStack) -> None:
        monitor, options = site.machines[self.guest].monitor, self.options
        if self.socket:
            name = f"{self.name}-socket"
            address = {"type": "unix", "data": {"path": self.socket}}
            backend = {"type": "socket", "data": {"addr": address, "server": False}}
            monitor.execute("chardev-add", id=name, backend=backend)
            down.callback(monitor.execute, "chardev-remove", id=name)
            options = {**options, "chardev": name}
        if self.directory:
            options = {**options, "fsdev": self.name}
        bus = qemu.slot(self.name)
        monitor.plug(down, options, id=self.name, driver=self.driver, bus=bus)
