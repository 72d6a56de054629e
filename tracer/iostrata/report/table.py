# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary as a table of layers for people, in the width they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from iostrata.model import Figures, Layer, Op, Part, Row, Summary, Table
from iostrata.report import listing, matrix, quality, spread, tail, verdict, who
from iostrata.report.bars import bar
from iostrata.report.quantity import Unit, cut, share, unit_for
from iostrata.report.sections import name_width, sections, subtotal_of
from iostrata.units import few

SHARE_WIDTH: Final = 7
FIGURE_WIDTH: Final = 8
BAR_WIDTH: Final = 40
WIDTH: Final = 80


@dataclass(frozen=True)
class Column:
    title: str
    value_ns: Callable[[Figures], float]


COLUMNS: Final = (
    Column("mean", lambda figures: figures.mean_ns),
    Column("p50", lambda figures: figures.p50_ns),
    Column("p95", lambda figures: figures.p95_ns),
    Column("p99", lambda figures: figures.p99_ns),
    Column("max", lambda figures: figures.max_ns),
)
KINDS: Final = {Op.SYNC: "synchronous ", Op.READ: "", Op.DIRECT: "direct "}
# What is a part of what.
INDENTS: Final = {"GAVG": "", "KAVG": "  ", "QAVG": "    ", "DAVG": "  ", "unfollowed": "  "}
# The first to go is the first that a narrow terminal can do without.
DISPENSABLE: Final = ("p95", "max", "p50", "p99")


def plain(summary: Summary) -> str:
    """The table as a pipe or a file gets it: 80 columns, no colour."""
    return render(summary).plain


def render(
    summary: Summary,
    width: int = WIDTH,
    blocks: bool = True,
    with_tail: bool = False,
    with_who: bool = False,
) -> Text:
    """``blocks``: bars may use Unicode's block characters, else ``#``.

    ``with_who``: below each row who had what was waited for.
    """
    lines = [
        *(Text(line, style="bold") for line in headline(summary, width)),
        *_verdict(summary, width),
        Text(),
        *_main(summary, width, blocks, with_who),
    ]
    if len(summary.groups) > 1:
        listed = summary.grouped_by in listing.LISTED
        lines += [Text(), *(listing if listed else matrix).lines(summary, width)]
    if with_tail:
        lines += [Text(), *tail.lines(summary, width)]
    if summary.histogram:
        lines += [Text(), *spread.histogram(summary.histogram, summary.op.word, width, blocks)]
    if summary.over_time:
        lines += [Text(), *spread.over_time(summary.over_time, width, blocks)]
    lines += [Text(), *quality.lines(summary, width)]
    for line in lines:
        line.rstrip()
    return Text("\n").join([*lines, Text()])


def _verdict(summary: Summary, width: int) -> Iterator[Text]:
    if found := verdict.sentences(summary):
        yield Text()
        for sentence in found:
            yield from map(Text, quality.wrapped(sentence, width))


def headline(summary: Summary, width: int) -> list[str]:
    """How many writes, who made them, where; then how and of what size, as far as it was seen."""
    count, of = summary.overall.count, summary.composition
    what = f"{KINDS[summary.op]}{summary.op.word}"
    who = f"{count} {what}{'s' if count != 1 else ''}"
    methods = tuple(of.get("method", ()))
    # No call, and so no file of the kernel's.
    by_library = bool(methods) and all(method.startswith("librbd:") for method in methods)
    for column, word in (("process", "by"), ("file_system", "on"), ("device", "to")):
        if of.get(column) and not (by_library and column != "process"):
            who += f" {word} {few(tuple(of[column]))}"
    if by_library:
        who += " to disks of Ceph by its library"
    sizes = few(tuple(of.get("size", ())))
    if sizes and summary.quality.partial_syncs:
        sizes = f"at least {sizes}"
    how = "; ".join(filter(None, (few(methods), sizes)))
    return [*quality.wrapped(who, width), *quality.wrapped(how, width)]


def _main(summary: Summary, width: int, blocks: bool, with_who: bool) -> Iterator[Text]:
    table = summary.overall
    names = name_width(row.layer for row in table.rows)
    columns, bar_width = _fit(width - names)
    unit = unit_for(table.total.mean_ns)
    line = _Line(names, columns, f"{unit.name} a {summary.op.word}", unit, bar_width, blocks)
    yield line.titles()
    yield line.of("total", table.total, "bold")
    yield from _rows(table, line, with_who)
    yield line.of("unattributed", table.residual, "yellow")
    if table.operators:
        yield Text()
        for one in table.operators:
            yield line.of(f"{INDENTS[one.name]}{one.name}", one.figures, "dim")
    if idle := [row.layer.name for row in table.rows if _idle(row)]:
        yield Text()
        yield from (Text(text, style="dim") for text in quality.labelled("no time in", idle, width))


def _rows(table: Table, line: _Line, with_who: bool) -> Iterator[Text]:
    busy = [row for row in table.rows if not _idle(row)]
    for section in sections(busy, lambda row: row.layer):
        if subtotal := subtotal_of(table.segments, section.place):
            yield line.of(section.title, subtotal.figures, "bold")
        else:
            yield Text(section.title, style="bold")
        for row in section.rows:
            yield line.of(f"  {row.layer.row}", row.figures, _style(row.layer))
            for name, part in who.shortened(row.behind) if with_who else ():
                yield line.behind(name, part)


def _idle(row: Row) -> bool:
    return row.figures.max_ns == 0 and row.figures.mean_ns == 0


def _style(layer: Layer) -> str:
    return "cyan" if layer.segment == "device" else ""


def _fit(width: int) -> tuple[tuple[Column, ...], int]:
    """The columns that fit beside the name, and what is left for the bar."""
    columns: tuple[Column, ...] = COLUMNS
    for title in DISPENSABLE:
        if SHARE_WIDTH + FIGURE_WIDTH * len(columns) <= width:
            break
        columns = tuple(column for column in columns if column.title != title)
    room = width - SHARE_WIDTH - FIGURE_WIDTH * len(columns) - 1
    return columns, min(room, BAR_WIDTH) if room >= 8 else 0


@dataclass(frozen=True)
class _Line:
    name_width: int
    columns: Sequence[Column]
    title: str
    unit: Unit
    bar_width: int
    blocks: bool

    def titles(self) -> Text:
        text = f"{self.title:<{self.name_width}}{'share':>{SHARE_WIDTH}}"
        text += "".join(f"{column.title:>{FIGURE_WIDTH}}" for column in self.columns)
        return Text(text, style="dim")

    def of(self, name: str, figures: Figures, style: str = "") -> Text:
        text = Text(f"{cut(name, self.name_width):<{self.name_width}}", style=style)
        text.append(f"{share(figures.share):>{SHARE_WIDTH}}")
        for column in self.columns:
            value = self.unit.text(column.value_ns(figures), FIGURE_WIDTH - 1)
            text.append(f"{value:>{FIGURE_WIDTH}}")
        if self.bar_width:
            text.append(" " + bar(figures.share, self.bar_width, self.blocks))
        return text

    def behind(self, name: str, part: Part) -> Text:
        """Where the other columns and the bar are is the name: it may be long."""
        text = f"{'':<{self.name_width}}{share(part.share):>{SHARE_WIDTH}}"
        text += f"{self.unit.text(part.mean_ns, FIGURE_WIDTH - 1):>{FIGURE_WIDTH}}  "
        room = FIGURE_WIDTH * (len(self.columns) - 1) + self.bar_width - 1
        return Text(text + cut(name, room), style="dim")
