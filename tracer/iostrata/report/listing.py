# SPDX-License-Identifier: Apache-2.0
"""Report stage: the groups of a Summary one below the other, where they are many or long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from iostrata.model import Summary, Table
from iostrata.report.quantity import Unit, cut, share, tail_of, unit_for

PATHS: Final = frozenset({"file", "directory", "cgroup"})
LISTED: Final = PATHS | {"thread", "comm", "container", "vm", "vcpu_placement"}
MOST: Final = 20
NAMES: Final = 20
"""Less is too little for a name."""
ENOUGH: Final = 48
"""So much of a name is worth more than the row."""
ROW_WIDTH: Final = 24
"""Of the row with most of the time, and its share."""


@dataclass(frozen=True)
class Column:
    """``title``: empty: what is counted."""

    title: str
    width: int
    cell: Callable[[Table, Unit], str]


COLUMNS: Final = (
    Column("", 8, lambda table, _: str(table.count)),
    Column("share", 7, lambda table, _: share(table.share)),
    Column("mean", 8, lambda table, unit: unit.text(table.total.mean_ns, 7)),
    Column("p99", 8, lambda table, unit: unit.text(table.total.p99_ns, 7)),
)


def lines(summary: Summary, width: int) -> Iterator[Text]:
    """Most of the time first. What lacks the room goes: the rows, then the last columns."""
    unit = unit_for(summary.overall.total.mean_ns)
    columns = _fit(width)
    room = width - sum(column.width for column in columns)
    shown = summary.groups[:MOST]
    title, count = _title(summary, unit), f"{summary.op.word}s"
    # What is counted may be a longer word than its column has room for.
    least = len(title) + max(len(count) + 1 - columns[0].width, 0)
    names = max(*(len(group.name) for group in shown), least)
    rows = room - ROW_WIDTH >= min(names, ENOUGH)
    names = min(names, room - (ROW_WIDTH if rows else 0))
    head = f"{title:<{names + columns[0].width - len(count)}}{count}"
    head += "".join(f"{column.title:>{column.width}}" for column in columns[1:])
    yield Text(f"{head}{'  most in' if rows else ''}", style="dim")
    shorten = tail_of if summary.grouped_by in PATHS else cut
    for group in shown:
        text = Text(f"{shorten(group.name, names):<{names}}")
        for column in columns:
            text.append(f"{column.cell(group, unit):>{column.width}}")
        if rows:
            text.append(f"  {cut(_most(group), ROW_WIDTH - 2)}")
        yield text
    if len(summary.groups) > MOST:
        yield Text(f"and {len(summary.groups) - MOST} more: --json has them all", style="dim")


def _title(summary: Summary, unit: Unit) -> str:
    return f"{unit.name}, by {summary.grouped_by}"


def _fit(width: int) -> tuple[Column, ...]:
    """The columns that leave room for a name."""
    columns: tuple[Column, ...] = COLUMNS
    while len(columns) > 2 and width - sum(column.width for column in columns) < NAMES:
        columns = columns[:-1]
    return columns


def _most(group: Table) -> str:
    row = max(group.rows, key=lambda row: row.figures.share, default=None)
    if row is None or group.residual.share > row.figures.share:
        return f"unattributed {share(group.residual.share)}"
    return f"{row.layer.name} {share(row.figures.share)}"
