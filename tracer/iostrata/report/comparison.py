# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Comparison as text, one row a layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from iostrata.model import Change, ComparedGroup, Comparison, Layer, Quality
from iostrata.report.quality import labelled, wrapped
from iostrata.report.quantity import Unit, cut, share, unit_for
from iostrata.report.sections import headed, name_width, sections

WIDTH: Final = 80
FIGURE_WIDTH: Final = 8
VERDICT_WIDTH: Final = 8
COLUMNS: Final = ("A", "B", "change", "from", "to", "of A")
INTERVAL: Final = ("from", "to")
# The first to go is the first that a narrow terminal can do without.
DISPENSABLE: Final = (INTERVAL, ("A", "B"), ("of A",))


@dataclass(frozen=True)
class Names:
    """What the two recordings are called."""

    a: str
    b: str


def plain(comparison: Comparison, names: Names) -> str:
    """As a pipe or a file gets it: 80 columns, no colour."""
    return render(comparison, names).plain


def render(comparison: Comparison, names: Names, width: int = WIDTH) -> Text:
    """The groups one below the other, then what the verdicts rest on."""
    lines = [
        *map(Text, wrapped(f"A: {names.a}", width, 3)),
        *map(Text, wrapped(f"B: {names.b}", width, 3)),
    ]
    for group in comparison.groups:
        lines += [Text(), *_group(group, width)]
    lines += [Text(), *_footer(comparison, width)]
    for line in lines:
        line.rstrip()
    return Text("\n").join([*lines, Text()])


def _group(group: ComparedGroup, width: int) -> Iterator[Text]:
    rows = {row.layer: row for row in group.rows if row.layer}
    names = name_width(rows)
    columns = _fit(width - names)
    unit = unit_for(group.total.a_ns)
    title = f"{group.name}: {group.count_a} writes in A, {group.count_b} in B"
    yield from (Text(line, style="bold") for line in wrapped(title, width))
    head = "".join(f"{column:>{FIGURE_WIDTH}}" for column in columns)
    yield Text(f"{unit.name + ' a write':<{names}}{head}", style="dim")

    def line(name: str, change: Change, style: str = "", verdict: str = "") -> Text:
        verdict = verdict or _verdict(change, group.judged)
        text = Text(f"{cut(name, names):<{names}}", style=style)
        for column in columns:
            known = group.judged or column not in INTERVAL
            text.append(f"{_cell(column, change, unit) if known else '':>{FIGURE_WIDTH}}")
        colours = {"slower": "bold red", "faster": "bold green"}
        return text.append(f" {verdict}", style=colours.get(verdict, "dim"))

    yield line("total mean", group.total, "bold")
    indent = "" if headed(rows) else "  "
    for section in sections(rows, lambda layer: layer):
        if not indent:
            yield Text(section.title, style="bold")
        for layer in section.rows:
            unlike = "unlike" if rows[layer].unlike else ""
            yield line(f"  {layer.row}", rows[layer].change, _style(layer), unlike)
    for row in group.rows:
        if row.layer is None:
            yield line(f"{indent}unattributed", row.change, "yellow")
    yield line("total p50", group.p50)
    yield line("total p99", group.p99)


def _fit(width: int) -> tuple[str, ...]:
    """The columns that fit beside the name."""
    columns: tuple[str, ...] = COLUMNS
    for some in DISPENSABLE:
        if FIGURE_WIDTH * len(columns) + VERDICT_WIDTH <= width:
            break
        columns = tuple(column for column in columns if column not in some)
    return columns


def _cell(column: str, change: Change, unit: Unit) -> str:
    if column == "of A":
        return _signed(share(change.share))
    values = {"A": change.a_ns, "B": change.b_ns}
    if column in values:
        return unit.text(values[column], FIGURE_WIDTH - 1)
    edges = {"change": change.change_ns, "from": change.low_ns, "to": change.high_ns}
    return _signed(unit.text(edges[column], FIGURE_WIDTH - 2))


def _signed(text: str) -> str:
    return text if text.startswith("-") or not text.strip("0.%") else f"+{text}"


def _verdict(change: Change, judged: bool) -> str:
    if not judged:
        return "few"
    if not change.real:
        return "same" if change.low_ns == change.high_ns == 0 else "noise"
    return "slower" if change.change_ns > 0 else "faster"


def _footer(comparison: Comparison, width: int) -> Iterator[Text]:
    def said(label: str, parts: list[str], style: str = "") -> Iterator[Text]:
        yield from (Text(line, style=style) for line in labelled(label, parts, width))

    level = f"{comparison.confidence:.0%}"
    yield from said("interval", [f"{level} of {comparison.resamples} block bootstrap resamples"])
    yield from said("noise", ["the interval of the change includes 0"])
    if any(row.unlike for group in comparison.groups for row in group.rows):
        yield from said("unlike", ["only one of the two observed this layer: not judged"], "yellow")
    if not all(group.judged for group in comparison.groups):
        yield from said("few", ["too few writes to judge"], "yellow")
    for name, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            yield from said(f"only in {name}", list(only), "yellow")
    ways = [
        [crossing.hop for crossing in quality.crossings]
        for quality in (comparison.quality_a, comparison.quality_b)
    ]
    if ways[0] != ways[1]:
        text = "not of the same machines: a row of one only was not recorded in the other"
        yield from said("path", [text], "yellow")
    for column in comparison.mixes:
        text = f"A and B hold different parts of each {column}: compare --by {column}"
        yield from said("mix", [text], "yellow")
    for name, quality in (("A", comparison.quality_a), ("B", comparison.quality_b)):
        yield from _defects(name, quality, width)
    if comparison.limit is None:
        return
    limit = share(comparison.limit)
    found = [
        f"{regression.row} of {regression.group} {_signed(share(regression.share))}"
        for regression in comparison.regressions
    ]
    if found:
        yield from said("REGRESSION", [f"above {limit} of A", *found], "bold red")
    else:
        yield from said("regression", [f"none above {limit} of A"])


def _defects(name: str, quality: Quality, width: int) -> Iterator[Text]:
    if quality.lost:
        text = f"{sum(quality.lost.values())} events of {name}"
        yield from (Text(line, style="bold red") for line in labelled("lost", [text], width))
    for defect in quality.damage:
        text = f"{name}: {defect}"
        yield from (Text(line, style="bold red") for line in labelled("damage", [text], width))


def _style(layer: Layer) -> str:
    return "cyan" if layer.segment == "device" else ""
