# SPDX-License-Identifier: Apache-2.0
"""Report stage: how latencies spread, and how they went over time, as lines of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from iostrata import units
from iostrata.model import Bin, Course, OverTime
from iostrata.report.bars import bar, strip
from iostrata.report.quantity import cut, share, unit_for

EDGE_WIDTH: Final = 9
COUNT_WIDTH: Final = 9
SHARE_WIDTH: Final = 8
MOSTLY_WIDTH: Final = 26
NARROWEST_BAR: Final = 10
WIDEST_BAR: Final = 30
NAME_WIDTH: Final = 22
NARROW_NAME_WIDTH: Final = 12
NARROW: Final = 60
RANGE_WIDTH: Final = 20
MOST_INTERVALS: Final = 48
FEWEST_INTERVALS: Final = 8


def intervals(width: int) -> int:
    """How many stretches of time a line of that width shows."""
    room = width - _names(width) - RANGE_WIDTH
    return max(min(MOST_INTERVALS, room), FEWEST_INTERVALS)


def _names(width: int) -> int:
    return NAME_WIDTH if width >= NARROW else NARROW_NAME_WIDTH


def histogram(bins: Sequence[Bin], word: str, width: int, blocks: bool) -> Iterator[Text]:
    """A line a bin; the first to go is which row most of it is in, then the sum up to it."""
    room = width - 2 * EDGE_WIDTH - COUNT_WIDTH - SHARE_WIDTH - 1
    sums = room - SHARE_WIDTH >= NARROWEST_BAR
    room -= SHARE_WIDTH if sums else 0
    mostly = room - MOSTLY_WIDTH >= NARROWEST_BAR
    room = min(room - (MOSTLY_WIDTH if mostly else 0), WIDEST_BAR)
    unit = unit_for(bins[0].low)
    title = f"{unit.name + ', from':>{EDGE_WIDTH}}{'to':>{EDGE_WIDTH}}{word + 's':>{COUNT_WIDTH}}"
    title += f"{'share':>{SHARE_WIDTH}}" + (f"{'up to':>{SHARE_WIDTH}}" if sums else "")
    yield Text(title + (f"{'':<{room + 2}}most in" if mostly else ""), style="dim")
    largest = max(one.share for one in bins)
    for one in bins:
        edges = "".join(f"{_edge(ns / unit.ns):>{EDGE_WIDTH}}" for ns in (one.low, one.high))
        line = f"{edges}{one.count:>{COUNT_WIDTH}}{share(one.share):>{SHARE_WIDTH}}"
        line += f"{share(one.up_to):>{SHARE_WIDTH}}" if sums else ""
        drawn = bar(one.share / largest, max(room, 0), blocks) if room >= 1 else ""
        line += f" {drawn:<{max(room, 0)}}"
        if mostly and one.layer:
            line += f" {cut(one.layer.name, MOSTLY_WIDTH - 6)} {one.layer_share:.0%}"
        yield Text(line)


def _edge(value: float) -> str:
    """A round number, as short as it is."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def over_time(found: OverTime, width: int, blocks: bool) -> Iterator[Text]:
    """A character a stretch of time, each line with the range of its numbers."""
    begin = found.edges_s[0]
    each, whole = (units.duration((found.edges_s[place] - begin) * 1e9) for place in (1, -1))
    names, late = _names(width), f" from {units.duration(begin * 1e9)} on" if begin else ""
    title = cut(f"{whole}{late}, a character {each}", width - names)
    yield Text(f"{'over time':<{names}}{title}", style="dim")
    rates = [value for value in found.writes_per_s.values if value is not None]
    yield _line(found.writes_per_s, f"up to {max(rates):.0f}", max(rates), names, blocks)
    means = [value for value in found.mean_ns.values if value is not None]
    least, most = units.duration(min(means)), units.duration(max(means))
    yield _line(found.mean_ns, f"{least} to {most}", max(means), names, blocks)
    for course in found.shares:
        told = [value for value in course.values if value is not None]
        yield _line(course, f"{min(told):.0%} to {max(told):.0%}", 1.0, names, blocks)


def _line(course: Course, told: str, full: float, names: int, blocks: bool) -> Text:
    name = cut(course.name, names - 1)
    return Text(f"{name:<{names}}{strip(course.values, full, blocks)}  {told}")
