# SPDX-License-Identifier: Apache-2.0
"""Report stage: the groups of a Summary side by side, one column a group, one row a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.text import Text

from iostrata.model import Layer, Summary, Table
from iostrata.report.quantity import Unit, cut, unit_for

NAME_WIDTH: Final = 18
MIN_WIDTH: Final = 9
MAX_WIDTH: Final = 18


def lines(summary: Summary, width: int) -> Iterator[Text]:
    """As many columns beside each other as fit; the rest below."""
    unit = unit_for(summary.overall.total.mean_ns)
    shown = _busy(summary)
    for number, groups in enumerate(_blocks(summary.groups, width)):
        if number:
            yield Text()
        yield from _block(f"{unit.name}, by {summary.grouped_by}", groups, shown, unit)


def _blocks(groups: Sequence[Table], width: int) -> Iterator[Sequence[Table]]:
    block: list[Table] = []
    room = width - NAME_WIDTH
    for group in groups:
        if block and _width(group) > room:
            yield block
            block, room = [], width - NAME_WIDTH
        block.append(group)
        room -= _width(group)
    yield block


def _block(
    title: str, groups: Sequence[Table], shown: Sequence[Layer], unit: Unit
) -> Iterator[Text]:
    def line(name: str, style: str, cell: Callable[[Table], str]) -> Text:
        cells = "".join(f"{cell(group):>{_width(group)}}" for group in groups)
        return Text(f"{cut(name, NAME_WIDTH):<{NAME_WIDTH}}{cells}", style=style)

    def time(group: Table, ns: float) -> str:
        return unit.text(ns, _width(group) - 1)

    means = [{row.layer: row.figures.mean_ns for row in group.rows} for group in groups]
    mean_of = dict(zip((id(group) for group in groups), means, strict=True))

    yield line(title, "dim", lambda group: cut(group.name, _width(group) - 1))
    yield line("writes", "", lambda group: str(group.count))
    yield line("total p99", "", lambda group: time(group, group.total.p99_ns))
    yield line("total mean", "bold", lambda group: time(group, group.total.mean_ns))
    for layer in shown:
        yield line(
            f"  {layer.name}",
            "cyan" if layer.segment == "device" else "",
            lambda group, layer=layer: time(group, mean_of[id(group)].get(layer, 0.0)),  # type: ignore[misc]
        )
    yield line("  unattributed", "yellow", lambda group: time(group, group.residual.mean_ns))


def _width(group: Table) -> int:
    return max(MIN_WIDTH, min(len(group.name) + 1, MAX_WIDTH))


def _busy(summary: Summary) -> list[Layer]:
    rows = summary.overall.rows
    return [row.layer for row in rows if row.figures.max_ns != 0 or row.figures.mean_ns != 0]
