# SPDX-License-Identifier: Apache-2.0
"""Report stage: who is behind a row, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from iostrata.cgroups import container_of
from iostrata.model import UNKNOWN, Part, Who

SHOWN: Final = 5
IDLE: Final = "idle"


def named(who: Who) -> str:
    """``stress-ng in /noisy``, ``java in docker 3f2a91bc77de``."""
    if who == UNKNOWN:
        return "unknown"
    if who.process == IDLE and not who.cgroup:
        return "nobody: it was idle"
    if who.vm:
        return f"{who.process} of virtual machine {who.vm}"
    if container := container_of(who.cgroup):
        return f"{who.process} in {container}"
    return f"{who.process} in {who.cgroup}" if who.cgroup.strip("/") else who.process


def shortened(parts: Sequence[Part]) -> list[tuple[str, Part]]:
    """The most of them by name; the rest is one, and what is not known comes last.

    Law: the means are those of all parts together.
    """
    known = [part for part in parts if part.who != UNKNOWN]
    unknown = [("unknown", part) for part in parts if part.who == UNKNOWN]
    if len(known) <= SHOWN:
        return [*((named(part.who), part) for part in known), *unknown]
    shown, rest = known[: SHOWN - 1], known[SHOWN - 1 :]
    others = Part(UNKNOWN, sum(part.mean_ns for part in rest), sum(part.share for part in rest))
    return [
        *((named(part.who), part) for part in shown), (f"{len(rest)} others", others), *unknown,
    ]  # fmt: skip
