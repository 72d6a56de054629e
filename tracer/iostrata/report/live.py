# SPDX-License-Identifier: Apache-2.0
"""Report stage: a LiveSummary as one screen: the last seconds and strips."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from iostrata.model import Figures, Layer, LiveSummary, Row
from iostrata.report.bars import strip
from iostrata.report.quantity import Unit, cut, share, unit_for
from iostrata.report.sections import (
    NAME_WIDTH,
    WIDEST_NAME,
    Section,
    headed,
    name_width,
    sections,
    subtotal_of,
)
from iostrata.report.table import COLUMNS, FIGURE_WIDTH, SHARE_WIDTH, Column
from iostrata.units import duration

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
INDENT: Final = 2
FRAME_LINES: Final = 9
"""Lines that are no layers: title, choice, head, three rows, "more", foot, keys."""

LEAST_MISSING: Final = 0.005

Strip = Sequence[float | None]


@dataclass(frozen=True)
class View:
    """``title``: what is looked at. ``order``: one of ``ORDERS``. ``state``: a word, or none."""

    title: str
    width: int
    height: int
    blocks: bool = True
    order: str = ORDERS[0]
    state: str = ""


def render(summary: LiveSummary, view: View) -> Text:
    """At most ``width`` columns and ``height`` lines."""
    lines = [
        *_head(summary, view),
        *_table(summary, view),
        *_foot(summary),
        Text(KEYS if len(KEYS) <= view.width else KEYS_SHORT, style="dim"),
    ]
    for line in lines:
        line.truncate(view.width)
        line.rstrip()
    return Text("\n").join(lines[: view.height])


def _head(summary: LiveSummary, view: View) -> Iterator[Text]:
    yield Text(view.title, style="bold")
    chosen = [f"{column} {name}" for column, name in summary.chosen.items()]
    if not chosen:
        chosen = ["all writes" if summary.sampled == 1 else "some of all writes"]
    said = [*chosen, f"of the last {summary.seconds:.3g} s", f"in order of {view.order}"]
    line = Text(", ".join(said))
    if view.state:
        line.append(f"  {view.state}", style="reverse")
    yield line


def _foot(summary: LiveSummary) -> Iterator[Text]:
    if summary.hanging:
        calls = "one call hangs" if summary.hanging == 1 else f"{summary.hanging} calls hang"
        yield Text(f"{calls} since before this began: in no row", style="bold red")
    if summary.lost:
        count = sum(summary.lost.values())
        text = f"lost {count} events so far; writes that this may touch are left out"
        yield Text(text, style="bold red")
    elif summary.sampled < 1:
        off = "far off" if summary.error is None else f"off by {max(summary.error, 0.01):.0%}"
        text = f"{share(summary.sampled)} is analysed: means may be {off}"
        if summary.missing >= LEAST_MISSING:
            text += f", {summary.missing:.0%} of all time missing"
        if summary.seen_ns is not None:
            text += f", writes over {duration(summary.seen_ns)} missing"
        yield Text(text, style="yellow")
    else:
        yield Text("lost nothing", style="dim")


def _table(summary: LiveSummary, view: View) -> Iterator[Text]:
    unit = unit_for(summary.table.total.mean_ns if summary.table else 0.0)
    busy = [row for row in summary.table.rows if row.figures.mean_ns] if summary.table else []
    titled = view.order == ORDERS[0] and headed(row.layer for row in busy)
    line = _Line.that_fits([row.layer for row in busy], titled, unit, view)
    yield line.titles()
    yield line.rate(summary.writes_per_s)
    if summary.table is None:
        yield Text("no synchronous write", style="yellow")
        return

    def strip_of(machine: str, name: str) -> Strip:
        return summary.strips.get((machine, name), ())

    yield line.of("total", summary.table.total, strip_of("", "total"), "bold")
    groups = _grouped(busy, titled, view.order)
    titles = len(groups) if titled else 0
    shown = _largest(busy, max(view.height - FRAME_LINES - titles - bool(summary.hanging), 1))
    for group in groups:
        if subtotal := subtotal_of(summary.table.segments, group.place):
            yield line.of(group.title, subtotal.figures, (), "bold")
        elif titled:
            yield Text(group.title, style="bold")
        for row in group.rows:
            if row in shown:
                layer, style = row.layer, "cyan" if row.layer.segment == "device" else ""
                name = layer.row if titled else layer.name
                values = strip_of(layer.machine, layer.name)
                yield line.of(f"  {name}", row.figures, values, style)
    if len(busy) > len(shown):
        yield Text(f"  and {len(busy) - len(shown)} smaller ones", style="dim")
    yield line.of("unattributed", summary.table.residual, strip_of("", "unattributed"), "yellow")


def _largest(rows: Sequence[Row], count: int) -> Sequence[Row]:
    return sorted(rows, key=SORTS["share"])[:count]


def _grouped(rows: Sequence[Row], titled: bool, order: str) -> list[Section[Row]]:
    """Rows below the titles of their segments, or all of them in the wanted order."""
    if titled:
        return sections(rows, lambda row: row.layer)
    return [Section("", ("", ""), tuple(sorted(rows, key=SORTS[order])))]


@dataclass(frozen=True)
class _Line:
    name_width: int
    columns: tuple[Column, ...]
    unit: Unit
    room: int
    blocks: bool

    @classmethod
    def that_fits(cls, layers: Sequence[Layer], titled: bool, unit: Unit, view: View) -> _Line:
        names = name_width(layers)
        if not titled:
            longest = max((len(layer.name) + INDENT for layer in layers), default=0)
            names = max(NAME_WIDTH, min(longest, WIDEST_NAME))
        columns, room = _fit(view.width - names)
        return cls(names, columns, unit, room, view.blocks)

    def titles(self) -> Text:
        head = f"{self.unit.name + ' a write':<{self.name_width}}{'share':>{SHARE_WIDTH}}"
        head += "".join(f"{column.title:>{FIGURE_WIDTH}}" for column in self.columns)
        return Text(f"{head} {STRIP:>{self.room}}" if self.room >= len(STRIP) else head, "dim")

    def rate(self, writes_per_s: Strip) -> Text:
        now = writes_per_s[-1] if writes_per_s else 0.0
        width = SHARE_WIDTH + FIGURE_WIDTH * len(self.columns)
        return Text(f"{'writes/s':<{self.name_width}}{now or 0.0:>{width}.0f}").append(
            self.strip(writes_per_s)
        )

    def of(self, name: str, figures: Figures, values: Strip, style: str) -> Text:
        text = Text(f"{cut(name, self.name_width):<{self.name_width}}", style=style)
        text.append(f"{share(figures.share):>{SHARE_WIDTH}}")
        for column in self.columns:
            value = self.unit.text(column.value_ns(figures), FIGURE_WIDTH - 1)
            text.append(f"{value:>{FIGURE_WIDTH}}")
        return text.append(self.strip(values))

    def strip(self, values: Strip) -> str:
        """A character a value, the latest at the right, as high as a part of the highest."""
        if not self.room:
            return ""
        shown = values[-self.room :]
        highest = max((value for value in shown if value), default=0.0)
        cells = strip(shown, highest, self.blocks)
        return f" {cells:>{self.room}}"


def _fit(width: int) -> tuple[tuple[Column, ...], int]:
    """The columns that fit beside the name, and what is left for the strip."""
    columns: tuple[Column, ...] = COLUMNS
    for title in DISPENSABLE:
        if SHARE_WIDTH + FIGURE_WIDTH * len(columns) + NARROWEST_STRIP < width:
            break
        columns = tuple(column for column in columns if column.title != title)
    room = width - SHARE_WIDTH - FIGURE_WIDTH * len(columns) - 1
    return columns, max(room, 0)
