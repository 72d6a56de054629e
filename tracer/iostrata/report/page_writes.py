# SPDX-License-Identifier: Apache-2.0
"""Report stage: Timelines as waterfalls of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from iostrata import units
from iostrata.model import Lane, Step, Timeline
from iostrata.report.legend import Legend
from iostrata.report.markup import row, swatch, table
from iostrata.report.quantity import Unit
from iostrata.report.waterfall import cells, described, served_from

MOST_STEPS: Final = 300
MOST_LISTED: Final = 60
OPEN_LISTED: Final = 24
LONG_NS: Final = 100e6


def waterfalls(timelines: Sequence[Timeline], legend: Legend) -> Iterator[str]:
    for number, timeline in enumerate(timelines):
        names = timeline.names
        why = f", {timeline.why}" if timeline.why else ""
        yield (
            f"<h3>{units.duration(timeline.latency_ns)}: {timeline.op.word} {timeline.number} of "
            f"{timeline.of}{escape(why)}</h3><p class='dim'>"
            + escape(
                f"{names['method']}, {units.size(timeline.size_bytes)} by {names['process']}, "
                f"to {names['file_system']} on {names['device']}{served_from(timeline)}"
            )
            + "</p>"
        )
        yield '<div class="fall">'
        unit = _unit(timeline)
        yield f'<span></span><span class="time">{unit.name}</span>'
        last = units.duration(timeline.latency_ns)
        yield f'<span class="axis"><span>0</span><span>{last}</span></span>'
        yield from _lanes(timeline, legend)
        yield "</div>"
        is_open = " open" if not number and len(timeline.steps) <= OPEN_LISTED else ""
        yield f"<details{is_open}><summary>Steps</summary>"
        yield from table(_steps(timeline, legend))
        yield "</details>"


def _unit(timeline: Timeline) -> Unit:
    return Unit("us", 1e3, 2) if timeline.latency_ns < LONG_NS else Unit("ms", 1e6, 3)


def _lanes(timeline: Timeline, legend: Legend) -> Iterator[str]:
    """Below the title of their segment, where they have one."""
    title = ""
    for lane in timeline.lanes:
        before, title = title, legend.titles.get(lane.layer.name, "") if lane.layer else ""
        if title != before and title:
            yield f'<span class="segment">{escape(title)}</span>'
        yield from _lane(timeline, lane, legend)


def _lane(timeline: Timeline, lane: Lane, legend: Legend) -> Iterator[str]:
    colour = legend.colour(lane.layer)
    name = lane.layer.row if lane.layer else legend.label(None)
    yield f"<span>{swatch(colour)}{escape(name)}</span>"
    yield f'<span class="time">{_unit(timeline).text(lane.time_ns, 12)}</span><span class="strip">'
    mine = [step for step in timeline.steps if step.layer == lane.layer]
    if len(mine) > MOST_STEPS:
        # Too many to tell apart: how much of each stretch of time they hold.
        for cell, part in enumerate(cells(mine, timeline.latency_ns, MOST_STEPS)):
            if part > 0:
                left, opacity = cell / MOST_STEPS, 0.15 + 0.85 * min(part, 1.0)
                place = f"left:{left:.3%};width:{1 / MOST_STEPS:.3%};opacity:{opacity:.2f}"
                yield f'<i style="--layer:{colour};{place}"></i>'
        mine = []
    for step in mine:
        left = step.called_ns / timeline.latency_ns
        width = (step.end_ns - step.begin_ns) / timeline.latency_ns
        yield (
            f'<i style="--layer:{colour};left:{left:.3%};width:{width:.3%}"'
            f' title="{escape(_told(step))}"></i>'
        )
    yield "</span>"


def _told(step: Step) -> str:
    took = units.duration(step.end_ns - step.begin_ns)
    return f"{took} from {units.duration(step.begin_ns)}: {described(step.evidence)}"


def _steps(timeline: Timeline, legend: Legend) -> Iterator[str]:
    yield '<tr><th>layer</th><th>since begin</th><th>took</th><th class="text">behind it</th></tr>'
    unit = _unit(timeline)
    longest = sorted(timeline.steps, key=lambda step: step.begin_ns - step.end_ns)[:MOST_LISTED]
    for step in sorted(longest, key=lambda step: step.begin_ns):
        name = f"{swatch(legend.colour(step.layer))}{escape(legend.label(step.layer))}"
        times = (unit.text(step.begin_ns, 12), unit.text(step.end_ns - step.begin_ns, 12))
        yield (
            f"<tr><td>{name}</td><td>{times[0]}</td><td>{times[1]}</td>"
            f'<td class="text">{escape(described(step.evidence))}</td></tr>'
        )
    if len(timeline.steps) > MOST_LISTED:
        yield row((f"… {len(timeline.steps)} steps in all, the longest shown", "", "", ""))
