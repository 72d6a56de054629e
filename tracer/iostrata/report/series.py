# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Series as text, one row a layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from iostrata.model import Repeated, Series, SeriesGroup, ServedInRuns
from iostrata.report.quality import counted, labelled, unseen, wrapped
from iostrata.report.quantity import Unit, cut, share, unit_for
from iostrata.report.sections import headed, name_width, sections

WIDTH: Final = 80
FIGURE_WIDTH: Final = 9
COLUMNS: Final = ("share", "mean", "from", "to", "least", "most")
SERVED: Final = "served from"
SERVED_COLUMNS: Final = ("share", "took", "least", "most")


def plain(found: Series) -> str:
    """As a pipe or a file gets it: 80 columns, no colour."""
    return render(found).plain


def render(found: Series, width: int = WIDTH) -> Text:
    """The groups one below the other, then what the figures rest on."""
    lines: list[Text] = []
    for group in found.groups:
        lines += [*_group(group, found.op.word, width), Text()]
    for label, parts, style in _statements(found):
        lines += [Text(line, style=style) for line in labelled(label, parts, width)]
    for line in lines:
        line.rstrip()
    return Text("\n").join([*lines, Text()])


def _group(group: SeriesGroup, word: str, width: int) -> Iterator[Text]:
    rows = {row.layer: row for row in group.rows if row.layer}
    names, unit = name_width(rows), unit_for(group.total.mean_ns)
    title = f"{group.name}: {len(group.counts)} runs, {_between(group.counts)} {word}s in each"
    yield from (Text(line, style="bold") for line in wrapped(title, width))
    head = "".join(f"{column:>{FIGURE_WIDTH}}" for column in COLUMNS)
    yield Text(f"{f'{unit.name} a {word}':<{names}}{head}", style="dim")

    def line(name: str, figure: Repeated, part: str = "", style: str = "") -> Text:
        return Text(f"{cut(name, names):<{names}}{_cells(figure, part, unit)}", style=style)

    yield line("total mean", group.total, share(1.0), "bold")
    indent = "" if headed(rows) else "  "
    for section in sections(rows, lambda layer: layer):
        if not indent:
            yield Text(section.title, style="bold")
        for layer in section.rows:
            yield line(f"  {layer.row}", rows[layer].figure, share(rows[layer].share))
    for row in group.rows:
        if row.layer is None:
            yield line(f"{indent}unattributed", row.figure, share(row.share), "yellow")
    yield line("total p50", group.p50)
    yield line("total p99", group.p99)
    # Of a group that is what one place served, its title says how many.
    if [one.name for one in group.served] != [group.name]:
        yield from _served(group.served, unit)


def _served(served: Sequence[ServedInRuns], unit: Unit) -> Iterator[Text]:
    """Parts of the reads, how long one took, and which parts the runs had."""
    if not served:
        return
    names = max(map(len, (SERVED, *(one.name for one in served)))) + 1
    head = "".join(f"{column:>{FIGURE_WIDTH}}" for column in SERVED_COLUMNS)
    yield Text(f"{SERVED:<{names}}{head}", style="dim")
    for one in served:
        took = "-" if one.mean_ns is None else unit.text(one.mean_ns, FIGURE_WIDTH - 1)
        cells = (share(one.share), took, share(min(one.shares)), share(max(one.shares)))
        yield Text(f"{one.name:<{names}}" + "".join(f"{cell:>{FIGURE_WIDTH}}" for cell in cells))


def _cells(figure: Repeated, part: str, unit: Unit) -> str:
    values = (figure.mean_ns, figure.low_ns, figure.high_ns)
    ends = (min(figure.runs_ns), max(figure.runs_ns))
    texts = (part, *(unit.text(value, FIGURE_WIDTH - 1) for value in (*values, *ends)))
    return "".join(f"{text:>{FIGURE_WIDTH}}" for text in texts)


def _between(counts: tuple[int, ...]) -> str:
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"


def _statements(found: Series) -> Iterator[tuple[str, list[str], str]]:
    level = f"{found.confidence:.0%}"
    text = f"{level}, each by itself: where the mean of all such runs is, as far as these tell"
    yield "from, to", [text], ""
    yield "least, most", ["of the runs"], ""
    if found.not_in_all:
        yield "not in all", [f"{', '.join(found.not_in_all)}: only some runs have it"], "yellow"
    if found.left_out:
        yield "left out", counted(found.left_out), "yellow"
    if lost := sum(sum(quality.lost.values()) for quality in found.quality):
        yield "lost", [f"{lost} events"], "bold red"
    for quality in found.quality:
        for defect in quality.damage:
            yield "damage", [defect], "bold red"
    if share := max((one.unseen_share for one in found.quality if one.too_many_unseen), default=0):
        yield "left out", [unseen(share, found.op.word)], "bold red"
    if any(one.too_much_left_over and not (one.lost or one.damage) for one in found.quality):
        text = "slept beside requests or calls that are part of none: see iostrata replay"
        yield "left over", [f"{found.op.word}s {text}"], "bold red"
