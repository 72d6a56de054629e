# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Moment as one screen: the table of the last seconds, and strips that move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich.text import Text

from iostrata.model import Figures, Moment, Row, Table
from iostrata.report.quantity import cut, share, unit_for
from iostrata.report.sections import NAME_WIDTH
from iostrata.report.table import COLUMNS, FIGURE_WIDTH, SHARE_WIDTH, Column
from iostrata.report.waterfall import DENSITIES, HEIGHTS

# Sorting is stable: rows of one key stay in the order of the stack.
SORTS: Final[dict[str, Callable[[Row], float]]] = {
    "stack": lambda row: 0.0,
    "share": lambda row: -row.figures.share,
    "p99": lambda row: -row.figures.p99_ns,
}
ORDERS: Final = tuple(SORTS)
KEYS: Final = "q quit  s sort  f freeze  m method  d device  p process  a all"
KEYS_SHORT: Final = "q quit  s f m d p a: see --help"
STRIP: Final = "own highest is full"
# The first to go is the first that a narrow terminal can do without.
DISPENSABLE: Final = ("p95", "max", "p50", "p99")
NARROWEST_STRIP: Final = 16
FRAME_LINES: Final = 9
"""Lines that are no layers: title, choice, head, three rows, "more", foot, keys."""


@dataclass(frozen=True)
class View:
    """``title``: what is looked at. ``order``: one of ``ORDERS``. ``state``: a word, or none."""

    title: str
    width: int
    height: int
    blocks: bool = True
    order: str = ORDERS[0]
    state: str = ""


def render(moment: Moment, view: View) -> Text:
    """At most ``width`` columns and ``height`` lines."""
    lines = [
        *_head(moment, view),
        *_table(moment, view),
        *_foot(moment),
        Text(KEYS if len(KEYS) <= view.width else KEYS_SHORT, style="dim"),
    ]
    for line in lines:
        line.truncate(view.width)
        line.rstrip()
    return Text("\n").join(lines[: view.height])


def _head(moment: Moment, view: View) -> Iterator[Text]:
    yield Text(view.title, style="bold")
    chosen = [f"{column} {name}" for column, name in moment.chosen.items()] or ["all writes"]
    said = [*chosen, f"of the last {moment.seconds:.3g} s", f"in order of {view.order}"]
    line = Text(", ".join(said))
    if view.state:
        line.append(f"  {view.state}", style="reverse")
    yield line


def _foot(moment: Moment) -> Iterator[Text]:
    if moment.lost:
        count = sum(moment.lost.values())
        text = f"lost {count} events so far; writes that this may touch are left out"
        yield Text(text, style="bold red")
    elif moment.sampled < 1:
        text = f"{share(moment.sampled)} of the time is analysed, to cost little; nothing lost"
        yield Text(text, style="yellow")
    else:
        yield Text("lost nothing", style="dim")


def _table(moment: Moment, view: View) -> Iterator[Text]:
    columns, room = _fit(view.width)
    unit = unit_for(moment.table.total.mean_ns if moment.table else 0.0)
    head = f"{unit.name + ' a write':<{NAME_WIDTH}}{'share':>{SHARE_WIDTH}}"
    head += "".join(f"{column.title:>{FIGURE_WIDTH}}" for column in columns)
    yield Text(f"{head} {STRIP:>{room}}" if room >= len(STRIP) else head, style="dim")

    def strip(values: Sequence[float | None]) -> str:
        return f" {_strip(values[-room:], room, view.blocks)}" if room else ""

    def line(name: str, figures: Figures, key: tuple[str, str], style: str = "") -> Text:
        text = Text(f"{cut(name, NAME_WIDTH):<{NAME_WIDTH}}", style=style)
        text.append(f"{share(figures.share):>{SHARE_WIDTH}}")
        for column in columns:
            value = unit.text(column.value_ns(figures), FIGURE_WIDTH - 1)
            text.append(f"{value:>{FIGURE_WIDTH}}")
        return text.append(strip(moment.strips.get(key, ())))

    rate = moment.writes_per_s[-1] if moment.writes_per_s else 0.0
    width = SHARE_WIDTH + FIGURE_WIDTH * len(columns)
    yield Text(f"{'writes/s':<{NAME_WIDTH}}{rate:>{width}.0f}{strip(moment.writes_per_s)}")
    if moment.table is None:
        yield Text("no synchronous write", style="yellow")
        return
    yield line("total", moment.table.total, ("", "total"), "bold")
    lines = []
    for machine, rows in _grouped(moment.table, view.order):
        lines += [Text(machine, style="bold")] if machine else []
        for row in rows:
            layer = row.layer
            style = "cyan" if layer.segment == "device" else ""
            lines.append(line(f"  {layer.row}", row.figures, (layer.machine, layer.name), style))
    fitting = max(view.height - FRAME_LINES, 1)
    yield from lines[:fitting]
    if len(lines) > fitting:
        yield Text(f"  and {len(lines) - fitting} more", style="dim")
    yield line("unattributed", moment.table.residual, ("", "unattributed"), "yellow")


def _grouped(table: Table, order: str) -> Iterator[tuple[str, list[Row]]]:
    """Rows below their machine's name, which is empty where there is only one."""
    several = len({row.layer.machine for row in table.rows}) > 1
    busy = [row for row in table.rows if row.figures.mean_ns]
    for machine, rows in groupby(busy, key=lambda row: row.layer.machine):
        yield machine if several else "", sorted(rows, key=SORTS[order])


def _fit(width: int) -> tuple[tuple[Column, ...], int]:
    """The columns that fit, and what is left for the strip."""
    columns: tuple[Column, ...] = COLUMNS
    for title in DISPENSABLE:
        if NAME_WIDTH + SHARE_WIDTH + FIGURE_WIDTH * len(columns) + NARROWEST_STRIP < width:
            break
        columns = tuple(column for column in columns if column.title != title)
    room = width - NAME_WIDTH - SHARE_WIDTH - FIGURE_WIDTH * len(columns) - 1
    return columns, max(room, 0)


def _strip(values: Sequence[float | None], room: int, blocks: bool) -> str:
    levels = HEIGHTS if blocks else DENSITIES
    highest = max((value for value in values if value), default=0.0)
    cells = "".join(
        levels[min(int(value / highest * len(levels)), len(levels) - 1)]
        if value and value > 0
        else " "
        for value in values
    )
    return f"{cells:>{room}}"
