# SPDX-License-Identifier: Apache-2.0
"""Report stage: the groups of a Summary side by side, one column a group, one row a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from rich.text import Text

from iostrata.model import Layer, Summary, Table
from iostrata.report.quantity import Unit, cut, unit_for
from iostrata.report.sections import Section, headed, name_width, sections, subtotal_of

MIN_WIDTH: Final = 9
MAX_WIDTH: Final = 18


def lines(summary: Summary, width: int) -> Iterator[Text]:
    """As many columns beside each other as fit; the rest below."""
    unit = unit_for(summary.overall.total.mean_ns)
    shown = _busy(summary)
    names = name_width(shown)
    for number, groups in enumerate(_blocks(summary.groups, width - names)):
        if number:
            yield Text()
        yield from _block(summary, groups, shown, unit)


def _blocks(groups: Sequence[Table], width: int) -> Iterator[Sequence[Table]]:
    block: list[Table] = []
    room = width
    for group in groups:
        if block and _width(group) > room:
            yield block
            block, room = [], width
        block.append(group)
        room -= _width(group)
    yield block


def _block(
    summary: Summary, groups: Sequence[Table], shown: Sequence[Layer], unit: Unit
) -> Iterator[Text]:
    names = name_width(shown)

    def line(name: str, style: str, cell: Callable[[Table], str]) -> Text:
        cells = "".join(f"{cell(group):>{_width(group)}}" for group in groups)
        return Text(f"{cut(name, names):<{names}}{cells}", style=style)

    def time(group: Table, ns: float) -> str:
        return unit.text(ns, _width(group) - 1)

    means = [{row.layer: row.figures.mean_ns for row in group.rows} for group in groups]
    mean_of = dict(zip((id(group) for group in groups), means, strict=True))

    def mean(layer: Layer, group: Table) -> str:
        return time(group, mean_of[id(group)].get(layer, 0.0))

    def subtotal(section: Section[Layer], group: Table) -> str:
        found = subtotal_of(group.segments, section.place)
        return time(group, found.figures.mean_ns) if found else ""

    title = f"{unit.name}, by {summary.grouped_by}"
    yield line(title, "dim", lambda group: cut(group.name, _width(group) - 1))
    yield line(f"{summary.op.word}s", "", lambda group: str(group.count))
    yield line("total p99", "", lambda group: time(group, group.total.p99_ns))
    yield line("total mean", "bold", lambda group: time(group, group.total.mean_ns))
    indent = "" if headed(shown) else "  "
    for section in sections(shown, lambda layer: layer):
        if not indent:
            yield line(section.title, "bold", partial(subtotal, section))
        for layer in section.rows:
            style = "cyan" if layer.segment == "device" else ""
            yield line(f"  {layer.row}", style, partial(mean, layer))
    yield line(f"{indent}unattributed", "yellow", lambda group: time(group, group.residual.mean_ns))


def _width(group: Table) -> int:
    return max(MIN_WIDTH, min(len(group.name) + 1, MAX_WIDTH))


def _busy(summary: Summary) -> list[Layer]:
    rows = summary.overall.rows
    return [row.layer for row in rows if row.figures.max_ns != 0 or row.figures.mean_ns != 0]
