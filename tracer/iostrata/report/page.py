# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary, Charts, Timelines and facts as one HTML page that needs nothing else.

The charts are drawn by uPlot (MIT), which is in the page with its licence. Its
script gets numbers only; everything that was recorded is escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

from iostrata import units
from iostrata.model import (
    Charts,
    Excess,
    Fact,
    Figures,
    Lane,
    Layer,
    Step,
    Summary,
    Table,
    Tail,
    Timeline,
)
from iostrata.report import quality, table
from iostrata.report.quantity import Unit, share, unit_for
from iostrata.report.waterfall import cells, described

HERE: Final = Path(__file__).parent
UPLOT: Final = HERE / "uplot"
UNATTRIBUTED: Final = "unattributed"
ROOM: Final = 10_000
MOST_STEPS: Final = 300
MOST_LISTED: Final = 60
OPEN_LISTED: Final = 24
FIGURE_TITLES: Final = ("share", "mean", "p50", "p95", "p99", "max")
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

# Hue by kind, lightness by place in it: readable on white and on black.
COLOURS: Final = {
    "syscall": "#8d99a6", "fs": "#5f6b7a", "lock": "#c2185b",
    "journal.start": "#ce93d8", "journal.locking": "#ab47bc", "journal.flushing": "#8e24aa",
    "journal.logging": "#6a1b9a",
    "wakeup.worker": "#aed581", "wakeup.reap": "#8bc34a", "wakeup.interrupt": "#c0ca33",
    "wakeup.runqueue": "#43a047",
    "block.Q2G": "#ffcc80", "block.Q2I": "#ffb74d", "block.Q2D": "#fb8c00",
    "block.G2I": "#f57c00", "block.G2D": "#ef6c00", "block.I2D": "#e65100",
    "block.stacked": "#a1887f",
    "device.data": "#1e88e5", "device.meta": "#4dd0e1", "device.journal": "#26a69a",
    "device.flush": "#5c6bc0",
    "kvm.exit": "#ef9a9a", "kvm.inject": "#e57373", "vcpu.runqueue": "#b71c1c",
    "vmm.submit": "#f06292", "vmm.complete": "#ec407a", "vmm.runqueue": "#880e4f",
    "virtio.submit": "#bcaaa4", "virtio.interrupt": "#8d6e63",
    "network.there": "#7cb342", "network.back": "#558b2f",
    "rpc.queue": "#80cbc4", "rpc.reply": "#4db6ac", "rpc.call": "#00897b",
    "svc.queue": "#b0bec5", "svc": "#78909c",
    UNATTRIBUTED: "#fdd835",
}  # fmt: skip
OTHER: Final = "#9e9e9e"


def _colour(name: str, other: str = OTHER) -> str:
    """Of a layer, whichever machine it is on."""
    return COLOURS.get(name.rpartition("/")[2], other)


@dataclass(frozen=True)
class Page:
    """``name``: of the recording."""

    name: str
    summary: Summary
    charts: Charts
    timelines: Sequence[Timeline]
    facts: Sequence[Fact]


def render(page: Page) -> str:
    """The whole page; UTF-8."""
    headline = table.headline(page.summary, ROOM)
    body = "\n".join(
        [
            f"<h1>{escape(headline[0])}</h1>",
            *(f'<p class="dim">{escape(line)}</p>' for line in headline[1:]),
            '<nav><a href="#layers">Layers</a><a href="#time">Over time</a>'
            '<a href="#latency">By latency</a><a href="#slow">The slowest</a>'
            '<a href="#writes">Single writes</a><a href="#quality">Quality</a></nav>',
            *_layers(page.summary),
            *_charts(page.charts),
            *_tails(page.summary),
            *_timelines(page.timelines),
            *_quality(page.summary, page.facts),
            *_footer(),
        ]
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>iostrata: {escape(page.name)}</title>\n"
        f"<style>{_asset(UPLOT / 'uPlot.min.css')}\n{_asset(HERE / 'page.css')}</style>\n"
        f"</head>\n<body>\n{body}\n"
        f'<script id="data" type="application/json">{_data(page.charts)}</script>\n'
        f"<script>{_asset(UPLOT / 'uPlot.iife.min.js')}</script>\n"
        f"<script>{_asset(HERE / 'page.js')}</script>\n</body>\n</html>\n"
    )


def _asset(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _data(charts: Charts) -> str:
    document = {
        "layers": [
            {"name": name, "colour": _colour(name)} for name in _names(charts)
        ],
        "charts": {
            name: asdict(stack)
            for name, stack in (
                ("over_time", charts.over_time), ("body", charts.body), ("tail", charts.tail),
            )
        },
    }  # fmt: skip
    # A name must not end the script that it stands in.
    return json.dumps(document, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _names(charts: Charts) -> list[str]:
    return [*(layer.name for layer in charts.layers), UNATTRIBUTED]


def _swatch(name: str) -> str:
    return f'<span class="swatch" style="--layer:{_colour(name)}"></span>'


def _row(cells: Iterable[str], kind: str = "", tag: str = "td") -> str:
    inside = "".join(f"<{tag}>{cell}</{tag}>" for cell in cells)
    return f"<tr{f' class={kind!r}' if kind else ''}>{inside}</tr>"


def _table(rows: Iterable[str]) -> Iterator[str]:
    yield '<div class="wide" tabindex="0"><table>'
    yield from rows
    yield "</table></div>"


def _layers(summary: Summary) -> Iterator[str]:
    yield '<h2 id="layers">Where a write spends its time</h2>'
    yield (
        '<p class="dim">At each instant of a write, the deepest layer that is at work for it '
        "holds the time, so the rows and unattributed add up to the total.</p>"
    )
    yield from _table(_layer_rows(summary.overall))
    if len(summary.groups) > 1:
        for group in summary.groups:
            yield f"<details><summary>{escape(group.name)}: {group.count} writes</summary>"
            yield from _table(_layer_rows(group))
            yield "</details>"


def _layer_rows(found: Table) -> Iterator[str]:
    unit = unit_for(found.total.mean_ns)
    yield _row([f"{unit.name} a write", *FIGURE_TITLES, ""], tag="th")
    yield _figures("total", found.total, unit, "total")
    subtotals = {(row.segment, row.machine): row.figures for row in found.segments}
    several = len({row.layer.machine for row in found.rows}) > 1
    for place, rows in groupby(found.rows, lambda row: (row.layer.segment, row.layer.machine)):
        segment, machine = place
        title = f"{segment} of {machine}" if several else segment
        yield _figures(title, subtotals[place], unit, "segment")
        for row in rows:
            yield _figures(row.layer.name, row.figures, unit, meaning=row.layer.meaning)
    yield _figures(UNATTRIBUTED, found.residual, unit)


def _figures(name: str, figures: Figures, unit: Unit, kind: str = "", meaning: str = "") -> str:
    columns = (
        figures.mean_ns, figures.p50_ns, figures.p95_ns, figures.p99_ns, figures.max_ns,
    )  # fmt: skip
    swatch = "" if kind else _swatch(name)
    title = f' title="{escape(meaning)}"' if meaning else ""
    width = max(0.0, min(figures.share, 1.0))
    colour = _colour(name, "var(--dim)")
    filled = f'<i style="--layer:{colour};width:{width:.2%}"></i>' if width else ""
    bar = f'<td class="bar">{filled}</td>'
    cells = "".join(
        f"<td>{text}</td>"
        for text in (share(figures.share), *(unit.text(column, 12) for column in columns))
    )
    kind = f' class="{kind}"' if kind else ""
    return f"<tr{kind}><td{title}>{swatch}{escape(name)}</td>{cells}{bar}</tr>"


def _charts(charts: Charts) -> Iterator[str]:
    yield '<h2 id="time">Over time</h2>'
    yield f"<p>The mean write in each of {len(charts.over_time.counts)} stretches of time.</p>"
    yield from _chart("over_time", "Layers over time", charts)
    yield '<h2 id="latency">By latency: what the slow writes have that the others have not</h2>'
    yield "<p>Writes in order of their latency, from the fastest to p98: the mean of each part.</p>"
    yield from _chart("body", "Layers by latency, up to p98", charts)
    yield "<h3>The slowest 2 %, on a scale of their own</h3>"
    if not charts.tail.counts:
        yield "<p>There are too few writes for that.</p>"
        return
    yield from _chart("tail", "Layers by latency, from p98 to the slowest", charts)


def _chart(name: str, title: str, charts: Charts) -> Iterator[str]:
    yield (
        f'<div class="chart" data-chart="{name}"><div class="plot" tabindex="0" role="img" '
        f'aria-label="{title}; the table below has the numbers"></div>'
    )
    yield '<div class="legend" aria-live="polite"><span class="dim"></span>'
    for layer in _names(charts):
        yield f"<span>{_swatch(layer)}{escape(layer)} <b></b></span>"
    yield "</div>"
    stack = {"over_time": charts.over_time, "body": charts.body, "tail": charts.tail}[name]
    yield "<details><summary>The numbers, in us a write</summary>"
    head = ("from", "to", "writes", *(escape(layer) for layer in _names(charts)))
    unit = Unit("us", 1e3, 2)
    rows = [_row(head, tag="th")]
    for number, count in enumerate(stack.counts):
        edges = (f"{edge:.6g}" for edge in stack.edges[number : number + 2])
        cells = (unit.text(row[number], 12) for row in stack.mean_ns)
        rows.append(_row((*edges, str(count), *cells)))
    yield from _table(rows)
    yield "</details></div>"


def _tails(summary: Summary) -> Iterator[str]:
    yield '<h2 id="slow">The slowest 1 % beside the median writes</h2>'
    yield (
        '<p class="dim">share: of what the slow writes took longer. leads: how many of them '
        "lose most of their time in that row.</p>"
    )
    for found in summary.groups if len(summary.groups) > 1 else (summary.overall,):
        yield f"<h3>{escape(found.name)}</h3>"
        if not found.tail:
            yield f"<p>{found.count} writes are too few to tell a tail from the rest.</p>"
            continue
        yield from _tail(found, found.tail)


def _tail(found: Table, tail: Tail) -> Iterator[str]:
    yield (
        f"<p>The slowest {tail.slow} of {found.count} writes "
        f"({units.duration(tail.slow_from_ns)} and more) beside the middle {tail.typical} "
        f"({units.duration(tail.typical_from_ns)} to {units.duration(tail.typical_to_ns)}).</p>"
    )
    unit = unit_for(tail.total.slow_ns)

    def row(name: str, excess: Excess, kind: str = "") -> str:
        times = (excess.typical_ns, excess.slow_ns, excess.excess_ns)
        label = escape(name) if kind else _swatch(name) + escape(name)
        cells = [label, *(unit.text(time, 12) for time in times), share(excess.share)]
        return _row([*cells, str(excess.leads)], kind)

    head = (f"{unit.name} a write", "typical", "slow", "more", "share", "leads")
    rows = [_row(head, tag="th"), row("total", tail.total, "total")]
    rows += [row(one.layer.name, one.excess) for one in tail.rows]
    yield from _table([*rows, row(UNATTRIBUTED, tail.residual)])


def _timelines(timelines: Sequence[Timeline]) -> Iterator[str]:
    yield '<h2 id="writes">Single writes</h2>'
    for number, timeline in enumerate(timelines):
        names = timeline.names
        why = f", {timeline.why}" if timeline.why else ""
        yield (
            f"<h3>{units.duration(timeline.latency_ns)}: write {timeline.number} of "
            f"{timeline.of}{escape(why)}</h3><p class='dim'>"
            + escape(
                f"{names['method']}, {units.size(timeline.size_bytes)} by {names['process']}, "
                f"to {names['file_system']} on {names['device']}"
            )
            + "</p>"
        )
        yield '<div class="fall">'
        last = Unit("us", 1e3, 2).text(timeline.latency_ns, 12)
        yield '<span></span><span class="time">us</span>'
        yield f'<span class="axis"><span>0</span><span>{last}</span></span>'
        for lane in timeline.lanes:
            yield from _lane(timeline, lane)
        yield "</div>"
        is_open = " open" if not number and len(timeline.steps) <= OPEN_LISTED else ""
        yield f"<details{is_open}><summary>Steps</summary>"
        yield from _table(_steps(timeline))
        yield "</details>"


def _lane(timeline: Timeline, lane: Lane) -> Iterator[str]:
    name = _name(lane.layer)
    unit = Unit("us", 1e3, 2)
    yield f"<span>{_swatch(name)}{escape(name)}</span>"
    yield f'<span class="time">{unit.text(lane.time_ns, 12)}</span><span class="strip">'
    mine = [step for step in timeline.steps if step.layer == lane.layer]
    colour = _colour(name)
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


def _steps(timeline: Timeline) -> Iterator[str]:
    unit = Unit("us", 1e3, 2)
    yield '<tr><th>layer</th><th>since begin</th><th>took</th><th class="text">behind it</th></tr>'
    longest = sorted(timeline.steps, key=lambda step: step.begin_ns - step.end_ns)[:MOST_LISTED]
    for step in sorted(longest, key=lambda step: step.begin_ns):
        name = _name(step.layer)
        times = (unit.text(step.begin_ns, 12), unit.text(step.end_ns - step.begin_ns, 12))
        yield (
            f"<tr><td>{_swatch(name)}{escape(name)}</td><td>{times[0]}</td><td>{times[1]}</td>"
            f'<td class="text">{escape(described(step.evidence))}</td></tr>'
        )
    if len(timeline.steps) > MOST_LISTED:
        yield _row((f"… {len(timeline.steps)} steps in all, the longest shown", "", "", ""))


def _name(layer: Layer | None) -> str:
    return layer.name if layer else UNATTRIBUTED


def _quality(summary: Summary, facts: Sequence[Fact]) -> Iterator[str]:
    yield '<h2 id="quality">What the numbers rest on</h2>'
    yield "<dl>"
    for label, parts, style in quality.statements(summary):
        kind = "bad" if "red" in style else "warn" if style else ""
        yield f'<dt>{escape(label)}</dt><dd class="{kind}">{escape(", ".join(parts))}</dd>'
    yield "</dl><h3>The machine</h3><dl>"
    for fact in facts:
        yield f"<dt>{escape(fact.name)}</dt><dd>{escape(fact.value)}</dd>"
    yield "</dl>"


def _footer() -> Iterator[str]:
    yield "<footer>Made by iostrata; charts by uPlot."
    yield "<details><summary>Licence of uPlot</summary>"
    yield f"<pre>{escape(_asset(UPLOT / 'LICENSE'))}</pre></details></footer>"
