# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: who had what writes waited for in, row by row how much of it each had out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import numpy as np

from iostrata.attribute.selection import process_name
from iostrata.columns import Ints, coded
from iostrata.model import UNKNOWN, Breakdown, Part, Row, Who, Writes

IDLE = "idle"
JOURNAL: Final = "jbd2/"
"""How a journal's thread is called: it works for those who wrote, which ``--who`` tells."""
PIECE_ROWS: Final = 1 << 18
"""So many are looked at in turn: of what has millions, each copy takes as much again."""


def parts_of(
    breakdown: Breakdown, writes: Ints, total_mean_ns: float
) -> dict[int, tuple[Part, ...]]:
    """Of each layer that is told of: the most first, what is not known last.

    Law: the means are the layer's together.
    """
    behind, count = breakdown.behind, len(breakdown.behind.names)
    wanted = np.zeros(len(breakdown.writes), np.bool_)
    wanted[writes] = True
    sums = np.zeros(len(breakdown.layers) * count)
    every = bool(wanted.all())
    for first in range(0, len(behind.write), PIECE_ROWS):
        rows = slice(first, first + PIECE_ROWS)
        counted = slice(None) if every else np.flatnonzero(wanted[behind.write[rows]])
        whose = behind.layer[rows][counted].astype(np.int64) * count + behind.who[rows][counted]
        sums += np.bincount(whose, behind.time_ns[rows][counted], minlength=len(sums))
    found: dict[int, list[Part]] = defaultdict(list)
    for number in np.flatnonzero(sums).tolist():
        mean = float(sums[number]) / len(writes)
        share = mean / total_mean_ns if total_mean_ns else 0.0
        found[number // count].append(Part(breakdown.behind.names[number % count], mean, share))
    return {layer: in_order(parts) for layer, parts in found.items()}


def in_order(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: (part.who == UNKNOWN, -part.mean_ns)))


def together(rows: Iterable[Row]) -> tuple[Part, ...]:
    """Of several rows: what each process had of all of them."""
    parts: dict[Who, Part] = {}
    for row in rows:
        for part in row.behind:
            before = parts.get(part.who, Part(part.who, 0.0, 0.0))
            parts[part.who] = Part(
                part.who, before.mean_ns + part.mean_ns, before.share + part.share
            )
    return in_order(parts.values())


Own = frozenset[tuple[str, str]]
"""Processes by name, and the virtual machine that each runs."""


def own_of(writes: Writes, rows: Ints) -> Own:
    """The processes that some writes (row indices) are of."""
    processes, machines = writes.names["process"], writes.names["vm"]
    process, vm = (writes.codes[name][rows].astype(np.int64) for name in ("process", "vm"))
    pairs, _ = coded(process * len(machines) + vm)
    return frozenset(
        (process_name(processes[pair // len(machines)]), machines[pair % len(machines)])
        for pair in pairs.tolist()
    )


def leader(parts: Iterable[Part], own: Own, half_of: float) -> Part | None:
    """Who else is behind at least half of some part of the total, if anybody is known to be."""
    nobody = {IDLE, UNKNOWN.process}
    others = [
        part
        for part in parts
        if part.who.process not in nobody
        and not part.who.process.startswith(JOURNAL)
        and (part.who.process, part.who.vm) not in own
    ]
    first = max(others, key=lambda part: part.share, default=None)
    return first if first and first.share * 2 >= half_of > 0 else None
