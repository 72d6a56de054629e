# SPDX-License-Identifier: Apache-2.0
"""Report stage: what makes the slowest writes of a Summary slow, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from iostrata import units
from iostrata.model import Excess, Layer, Summary, Table, Tail
from iostrata.report.quality import wrapped
from iostrata.report.quantity import Unit, cut, share, unit_for
from iostrata.report.sections import headed, name_width, sections, subtotal_of

FIGURE_WIDTH: Final = 9
COLUMNS: Final = ("typical", "slow", "more", "share", "leads")


LEGEND: Final = "leads: how many of the slow {}s lose most of their time in that row"


def lines(summary: Summary, width: int) -> Iterator[Text]:
    """All writes, or each group by itself: a slow method is no tail of a fast one."""
    tables = summary.groups if len(summary.groups) > 1 else (summary.overall,)
    for number, table in enumerate(tables):
        if number:
            yield Text()
        name = f"{table.name}: " if len(tables) > 1 else ""
        if table.tail:
            yield from _section(name, table, table.tail, summary.op.word, width)
        else:
            count = f"{table.count} {summary.op.word}s"
            text = f"{name}{count} are too few to tell a tail from the rest"
            yield from (Text(line, style="dim") for line in wrapped(text, width))
    legend = LEGEND.format(summary.op.word)
    if any(table.tail for table in tables):
        yield from (Text(line, style="dim") for line in wrapped(legend, width))


def _section(name: str, table: Table, tail: Tail, word: str, width: int) -> Iterator[Text]:
    title = (
        f"{name}the slowest {tail.slow} of {table.count} {word}s "
        f"({units.duration(tail.slow_from_ns)} and more) beside the middle {tail.typical} "
        f"({units.duration(tail.typical_from_ns)} to {units.duration(tail.typical_to_ns)})"
    )
    yield from (Text(line, style="bold") for line in wrapped(title, width))
    unit = unit_for(tail.total.slow_ns)
    layers = [row.layer for row in tail.rows]
    names = name_width(layers)
    columns = COLUMNS[: max((width - names) // FIGURE_WIDTH, 1)]

    def line(name: str, excess: Excess, style: str = "") -> Text:
        text = Text(f"{cut(name, names):<{names}}", style=style)
        for column in columns:
            text.append(f"{_cell(column, excess, unit):>{FIGURE_WIDTH}}")
        return text

    head = "".join(f"{column:>{FIGURE_WIDTH}}" for column in columns)
    yield Text(f"{f'{unit.name} a {word}':<{names}}{head}", style="dim")
    yield line("total", tail.total, "bold")
    indent = "" if headed(layers) else "  "
    for section in sections(tail.rows, lambda row: row.layer):
        subtotal = subtotal_of(tail.segments, section.place)
        if subtotal and not indent:
            yield line(section.title, subtotal.excess, "bold")
        for row in section.rows:
            yield line(f"  {row.layer.row}", row.excess, _style(row.layer))
    yield line(f"{indent}unattributed", tail.residual, "yellow")


def _cell(column: str, excess: Excess, unit: Unit) -> str:
    if column == "share":
        return share(excess.share)
    if column == "leads":
        return str(excess.leads)
    values = {"typical": excess.typical_ns, "slow": excess.slow_ns, "more": excess.excess_ns}
    return unit.text(values[column], FIGURE_WIDTH - 1)


def _style(layer: Layer) -> str:
    return "cyan" if layer.segment == "device" else ""
