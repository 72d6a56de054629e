# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Comparison as text, one row a layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from iostrata.model import Change, ChangeServed, ComparedGroup, Comparison, Layer, Quality
from iostrata.report.quality import counted, labelled, unseen, wrapped
from iostrata.report.quantity import Unit, cut, share, unit_for
from iostrata.report.sections import headed, name_width, sections

WIDTH: Final = 80
FIGURE_WIDTH: Final = 8
MANY: Final = 10_000
VERDICT_WIDTH: Final = 8
COLUMNS: Final = ("A", "B", "change", "from", "to", "of A")
INTERVAL: Final = ("from", "to")
# Beyond so many times either side, an end of an interval says that it can be anything.
ANY_RATIO: Final = 1_000.0
SERVED: Final = "served from"
SERVED_COLUMNS: Final = ("A", "B", "change", "A took", "B took")
# The first to go is the first that a narrow terminal can do without.
DISPENSABLE: Final = (INTERVAL, ("A", "B"), ("of A",))


@dataclass(frozen=True)
class Names:
    """What the recordings of the two sides are called."""

    a: Sequence[str]
    b: Sequence[str]


def plain(comparison: Comparison, names: Names) -> str:
    """As a pipe or a file gets it: 80 columns, no colour."""
    return render(comparison, names).plain


def render(comparison: Comparison, names: Names, width: int = WIDTH) -> Text:
    """The groups one below the other, then what the verdicts rest on."""
    lines = [
        *map(Text, wrapped(f"A: {' '.join(names.a)}", width, 3)),
        *map(Text, wrapped(f"B: {' '.join(names.b)}", width, 3)),
    ]
    for group in comparison.groups:
        lines += [Text(), *_group(comparison, group, width)]
    lines += [Text(), *_footer(comparison, width)]
    for line in lines:
        line.rstrip()
    return Text("\n").join([*lines, Text()])


def _group(comparison: Comparison, group: ComparedGroup, width: int) -> Iterator[Text]:
    rows = {row.layer: row for row in group.rows if row.layer}
    names = name_width(rows)
    columns = _fit(width - names)
    unit = unit_for(group.total.a_ns)
    word = comparison.op.word
    title = f"{group.name}: {_counted(group.count_a, word, comparison.runs_a)} of A, "
    title += f"{_counted(group.count_b, word, comparison.runs_b)} of B"
    yield from (Text(line, style="bold") for line in wrapped(title, width))
    head = "".join(f"{column:>{FIGURE_WIDTH}}" for column in columns)
    yield Text(f"{f'{unit.name} a {word}':<{names}}{head}", style="dim")

    def line(name: str, change: Change, style: str = "", unlike: bool = False) -> Text:
        verdict = "unlike" if unlike else change.verdict
        text = Text(f"{cut(name, names):<{names}}", style=style)
        for column in columns:
            known = group.known or column not in INTERVAL
            text.append(f"{_cell(column, change, unit) if known else '':>{FIGURE_WIDTH}}")
        colours = {"slower": "bold red", "faster": "bold green"}
        return text.append(f" {verdict}", style=colours.get(verdict, "dim"))

    yield line("total mean", group.total, "bold")
    indent = "" if headed(rows) else "  "
    for section in sections(rows, lambda layer: layer):
        if not indent:
            yield Text(section.title, style="bold")
        for layer in section.rows:
            row = rows[layer]
            yield line(f"  {layer.row}", row.change, _style(layer), row.unlike)
    for row in group.rows:
        if row.layer is None:
            yield line(f"{indent}unattributed", row.change, "yellow")
    yield line("total p50", group.p50)
    yield line("total p99", group.p99)
    # Of a group that is what one place served, its title says how many.
    if [one.a.name for one in group.served] != [group.name]:
        yield from _served(group.served, unit, width)


def _served(served: Sequence[ChangeServed], unit: Unit, width: int) -> Iterator[Text]:
    """What served the reads of the two sides, and how long each read took there."""
    if not served:
        return
    names = max(map(len, (SERVED, *(one.a.name for one in served)))) + 1
    columns = SERVED_COLUMNS[: max((width - names) // FIGURE_WIDTH, 1)]
    head = "".join(f"{column:>{FIGURE_WIDTH}}" for column in columns)
    yield Text(f"{SERVED:<{names}}{head}", style="dim")
    for one in served:
        took = (
            "-" if side.mean_ns is None else unit.text(side.mean_ns, FIGURE_WIDTH - 1)
            for side in (one.a, one.b)
        )
        cells = (share(one.a.share), share(one.b.share), _signed(share(one.change)), *took)
        some = "".join(f"{cell:>{FIGURE_WIDTH}}" for cell in cells[: len(columns)])
        yield Text(f"{one.a.name:<{names}}{some}")


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
        return _signed(_times(change.share))
    values = {"A": change.a_ns, "B": change.b_ns}
    if column in values:
        return unit.text(values[column], FIGURE_WIDTH - 1)
    edges = {"change": change.change_ns, "from": change.low_ns, "to": change.high_ns}
    if abs(edges[column]) > ANY_RATIO * max(change.a_ns, change.b_ns):
        return "any"
    return _signed(unit.text(edges[column], FIGURE_WIDTH - 2))


def _times(part: float) -> str:
    """A share that may be many times the whole."""
    text = share(part)
    return text if len(text) < FIGURE_WIDTH - 1 else f"{part:.{'0f' if part < MANY else '0e'}}x"


def _signed(text: str) -> str:
    return text if text.startswith("-") or not text.strip("0.%") else f"+{text}"


def _counted(writes: int, word: str, runs: int) -> str:
    return f"{writes} {word}s in {runs} run{'s' if runs != 1 else ''}"


def _both(comparison: Comparison) -> str:
    count, s = comparison.on_both, "s" if comparison.on_both > 1 else ""
    if count == comparison.runs_a == comparison.runs_b:
        return f"A and B are the same recording{s}: there is no change to be found"
    are = "are" if s else "is"
    return f"{count} run{s} of A {are} in B, too: a change looks smaller than it is"


def _footer(comparison: Comparison, width: int) -> Iterator[Text]:
    for label, parts, style in _statements(comparison):
        yield from (Text(line, style=style) for line in labelled(label, parts, width))


def _statements(comparison: Comparison) -> Iterator[tuple[str, list[str], str]]:
    if comparison.selected:
        yield "selected", [f"only {comparison.op.word}s {', '.join(comparison.selected)}"], "yellow"
    yield from _basis(comparison)
    if comparison.on_both:
        yield "the same", [_both(comparison)], "yellow"
    if comparison.grouped_by != "served" and any(group.served for group in comparison.groups):
        text = "parts of the reads, means over a side's runs, and how long one took: not judged"
        yield SERVED, [text], ""
    if any(row.unlike for group in comparison.groups for row in group.rows):
        yield "unlike", ["not all runs observed this layer: not judged"], "yellow"
    if not all(group.known for group in comparison.groups):
        yield "few", [f"too few {comparison.op.word}s for an interval"], "yellow"
    for name, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            yield f"only in {name}", list(only), "yellow"
    if comparison.not_in_all:
        yield (
            "not in all",
            [f"{', '.join(comparison.not_in_all)}: only some runs have it"],
            "yellow",
        )
    qualities = (*comparison.quality_a, *comparison.quality_b)
    if len({tuple(crossing.hop for crossing in one.crossings) for one in qualities}) > 1:
        text = "not of the same machines: a row of one only was not recorded in the other"
        if beside := comparison.beside:
            one, other = ("A", "B") if beside.side == "a" else ("B", "A")
            text += f"; the OS of {one} is beside that of {beside.machine} in {other}"
        yield "path", [text], "yellow"
    for column in comparison.mixes:
        yield (
            "mix",
            [f"A and B hold different parts of each {column}: compare --by {column}"],
            "yellow",
        )
    if comparison.one_after_the_other:
        text = "one side was recorded after the other: the intervals are wider by what may have"
        yield "order", [f"{text} drifted meanwhile; record the sides by turns"], "yellow"
    for name, left_out in (("A", comparison.left_out_a), ("B", comparison.left_out_b)):
        if left_out:
            yield "left out", [f"of {name}: {', '.join(counted(left_out))}"], "yellow"
    for name, side in (("A", comparison.quality_a), ("B", comparison.quality_b)):
        yield from _defects(name, side, comparison.op.word)
    yield from _limit(comparison)


def _basis(comparison: Comparison) -> Iterator[tuple[str, list[str], str]]:
    """What the intervals and verdicts mean, and what they could have found."""
    level = f"{comparison.confidence:.0%}"
    if not comparison.judged:
        yield "interval", [f"{level}, of what varies within the runs only"], ""
        text = "no verdict: how one run differs from the next of the same thing is not known with "
        yield "runs", [f"{text}one run of a side; record each several times (--repeat 5)"], "yellow"
        return
    yield "interval", [f"{level} for all of them together, from how runs of a side differ"], ""
    verdicts = {
        row.verdict
        for group in comparison.groups
        for row in (group.total, group.p50, group.p99, *(row.change for row in group.rows))
    }
    small = share(comparison.small)
    if "noise" in verdicts:
        yield "noise", [f"the interval includes 0, and no change above {small} of A"], ""
    if "unclear" in verdicts:
        yield "unclear", [f"the interval includes 0, and changes above {small} of A"], ""
    for group in comparison.groups:
        found = f"{group.name}: total from {_signed(share(group.total.detectable))} on"
        needed = f"{group.needed_runs} runs" if group.needed_runs else "hundreds of runs"
        more = f"{_signed(small)} would need {needed} of each"
        yield "detectable", [found, more], ""


def _limit(comparison: Comparison) -> Iterator[tuple[str, list[str], str]]:
    if comparison.limit is None:
        return
    limit = share(comparison.limit)
    found = [
        f"{regression.row} of {regression.group} {_signed(share(regression.share))}"
        for regression in comparison.regressions
    ]
    if found:
        yield "REGRESSION", [f"above {limit} of A", *found], "bold red"
        return
    unclear = [group.name for group in comparison.groups if group.total.verdict == "unclear"]
    if unclear:
        text = f"none proven above {limit} of A, but the total is unclear: record more runs"
        yield "regression", [text], "yellow"
    else:
        yield "regression", [f"none above {limit} of A"], ""


def _defects(name: str, side: Sequence[Quality], word: str) -> Iterator[tuple[str, list[str], str]]:
    if lost := sum(sum(quality.lost.values()) for quality in side):
        yield "lost", [f"{lost} events of {name}"], "bold red"
    for quality in side:
        for defect in quality.damage:
            yield "damage", [f"{name}: {defect}"], "bold red"
    if share := max((one.unseen_share for one in side if one.too_many_unseen), default=0):
        yield "left out", [f"{name}: {unseen(share, word)}"], "bold red"
    if any(one.too_much_left_over and not (one.lost or one.damage) for one in side):
        text = "slept beside requests or calls that are part of none: see iostrata replay"
        yield "left over", [f"{name}: {word}s {text}"], "bold red"


def _style(layer: Layer) -> str:
    return "cyan" if layer.segment == "device" else ""
