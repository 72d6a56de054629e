# SPDX-License-Identifier: Apache-2.0
"""Lab stage: packets that wait before they are sent."""

from __future__ import annotations

from contextlib import ExitStack

from iostrata.lab.problem import Problems, unless_known
from iostrata.lab.schema import Amount, Name
from iostrata.lab.steps.step import Ground, Site, Step


class Netem(Step, tag="netem", tag_field="kind", frozen=True, kw_only=True):
    """Each packet that the machine sends over ``link`` waits for ``delay_ns``."""

    link: Name
    delay_ns: Amount = 0

    def packages(self, machine: str) -> tuple[str, ...]:
        return ("iproute2",)

    def modules(self, machine: str) -> tuple[str, ...]:
        return ("sch_netem",)

    def check(self, ground: Ground) -> Problems:
        yield from unless_known("link", self.link, ground.links_of(self.machine), "link")

    def build(self, site: Site, down: ExitStack) -> None:
        if self.delay_ns:
            machine, device = site.machines[self.machine], f"dev {self.link} root"
            delay = f"delay {self.delay_ns / 1000:g}us limit 10000"
            machine.command(f"tc qdisc add {device} netem {delay}")
            down.callback(machine.command, f"tc qdisc del {device}")
