# SPDX-License-Identifier: Apache-2.0
"""Lab stage: what a step is built on: the machines, their links, and the steps before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from iostrata.lab.machine import RunningMachine
from iostrata.lab.steps import Link, Step


@dataclass(frozen=True)
class Site:
    """``steps``: those built, by name, each with what takes it down again."""

    machines: Mapping[str, RunningMachine]
    links: Sequence[Link]
    steps: dict[str, tuple[Step, ExitStack]] = field(default_factory=dict)

    def address(self, machine: str, seen_from: str) -> str:
        """Of a machine, on a link that joins the two."""
        for link in self.links:
            if set(link.addresses) == {machine, seen_from}:
                return link.addresses[machine].partition("/")[0]
        raise LookupError(f"no link joins {machine} and {seen_from}")
