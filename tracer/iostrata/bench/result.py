# SPDX-License-Identifier: Apache-2.0
"""Bench: phases and perhaps a Breakdown in, one Measurement a test out.

A write belongs to the test in whose time it began; an operation of a test may
be several writes, so a write's mean times their number is divided by operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.attribute import summarise, tabulate
from iostrata.layers import ROWS
from iostrata.model import Breakdown, Summary, Table
from iostrata.workload import Phase

# The columns beside each test, and the rows whose time each holds.
COLUMNS: Final[Mapping[str, frozenset[str]]] = {
    column: frozenset(row.name for row in ROWS if row.column == column)
    for column in ("cpu", "host", "net", "journ", "queue", "data", "flush", "wake")
}
# Shown only where there is something in them: on NFS, or with the machines below.
SELDOM: Final = frozenset({"host", "net"})


@dataclass(frozen=True)
class Measurement:
    """``column_ns``: an operation's time by column; None: not recorded.

    ``other_ns``: what is left of an operation: the program's own time, other
    system calls, and what no layer held.
    """

    phase: Phase
    column_ns: Mapping[str, float] | None
    other_ns: float | None


def summarise_tests(breakdown: Breakdown, phases: Sequence[Phase]) -> Summary:
    """The Summary with the tests as its groups; tests without synchronous writes have none."""
    begin_ns = breakdown.writes.begin_ns
    groups = []
    for phase in phases:
        first, last = np.searchsorted(begin_ns, (phase.begin_ns, phase.end_ns))
        if first < last:
            rows = np.arange(first, last)
            groups.append(tabulate(breakdown, f"{phase.group}: {phase.name.strip()}", rows))
    whole = summarise(breakdown)
    return Summary(
        overall=whole.overall,
        grouped_by="test",
        groups=tuple(groups),
        left_out=whole.left_out,
        quality=whole.quality,
        composition=whole.composition,
    )


def measure(phases: Sequence[Phase], summary: Summary | None) -> list[Measurement]:
    tables = {table.name: table for table in summary.groups} if summary else {}
    return [
        _measurement(phase, tables.get(f"{phase.group}: {phase.name.strip()}")) for phase in phases
    ]


def _measurement(phase: Phase, table: Table | None) -> Measurement:
    if table is None or not phase.operations:
        return Measurement(phase, None, None)
    writes = table.count / phase.operations
    held = {
        column: sum(row.figures.mean_ns for row in table.rows if row.layer.row in rows) * writes
        for column, rows in COLUMNS.items()
    }
    return Measurement(phase, held, phase.ns_an_operation - sum(held.values()))
