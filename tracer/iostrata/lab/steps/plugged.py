# SPDX-License-Identifier: Apache-2.0
"""Lab stage: what every step is that plugs something into a nested machine."""

from __future__ import annotations

from iostrata.lab.problem import Problems
from iostrata.lab.schema import Name
from iostrata.lab.steps.step import Ground, Step


class Plugged(Step, frozen=True, kw_only=True):
    """What its machine plugs into ``guest``, a machine within it, without a restart."""

    guest: Name

    def involved(self) -> tuple[str, ...]:
        return (self.machine, self.guest)

    def slots(self, machine: str) -> tuple[str, ...]:
        return (self.name,) if machine == self.guest else ()

    def check(self, ground: Ground) -> Problems:
        yield from ground.unless_nested("guest", self.machine, self.guest)
