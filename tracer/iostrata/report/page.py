# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary, Charts, Timelines and facts as one HTML page that needs nothing else.

The charts are drawn by uPlot (MIT), which is in the page with its licence. Its
script gets numbers only; everything that was recorded is escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from iostrata.model import Charts, Estimate, Fact, Summary, Timeline
from iostrata.report import page_tables, quality, verdict
from iostrata.report.legend import Legend
from iostrata.report.markup import row, swatch, table
from iostrata.report.page_writes import waterfalls
from iostrata.report.quantity import Unit, unit_for
from iostrata.report.table import headline

HERE: Final = Path(__file__).parent
UPLOT: Final = HERE / "uplot"
ROOM: Final = 10_000
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
PARTS: Final = {
    "layers": "Layers", "served": "Served from", "estimate": "The arithmetic",
    "time": "Over time", "latency": "By latency", "slow": "The slowest", "writes": "Single {}s",
    "quality": "Quality",
}  # fmt: skip


class Page(Struct, frozen=True):
    """``name``: of the recording. ``facts``: by what they are of. ``estimate``: None: left out."""

    name: str
    summary: Summary
    charts: Charts
    timelines: Sequence[Timeline]
    facts: Mapping[str, Sequence[Fact]]
    estimate: Estimate | None = None


def render(page: Page) -> str:
    """The whole page; UTF-8."""
    title, *lines = headline(page.summary, ROOM)
    legend = Legend.of(one.layer for one in page.summary.overall.rows)
    shown = Legend.of(page.charts.layers)
    unit = unit_for(page.summary.overall.total.mean_ns)
    body = "\n".join(
        [
            f"<h1>{escape(title)}</h1>",
            *(f'<p class="dim">{escape(line)}</p>' for line in lines),
            *(f"<p>{escape(sentence)}</p>" for sentence in verdict.sentences(page.summary)),
            _navigation(page),
            *page_tables.layers(page.summary, legend),
            *page_tables.served(page.summary),
            *(page_tables.arithmetic(page.estimate) if page.estimate else ()),
            *_charts(page.charts, shown, unit, page.summary.op.word),
            *page_tables.tails(page.summary, legend),
            f'<h2 id="writes">Single {page.summary.op.word}s</h2>',
            *waterfalls(page.timelines, legend),
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
        f'<script id="data" type="application/json">{_data(page, shown, unit)}</script>\n'
        f"<script>{_asset(UPLOT / 'uPlot.iife.min.js')}</script>\n"
        f"<script>{_asset(HERE / 'page.js')}</script>\n</body>\n</html>\n"
    )


def _navigation(page: Page) -> str:
    missing = {"estimate": not page.estimate, "served": not page.summary.served}
    links = (
        f'<a href="#{part}">{title.format(page.summary.op.word)}</a>'
        for part, title in PARTS.items()
        if not missing.get(part)
    )
    return f"<nav>{''.join(links)}</nav>"


def _asset(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _data(page: Page, legend: Legend, unit: Unit) -> str:
    charts = page.charts
    document = {
        "word": page.summary.op.word,
        "unit": {"name": unit.name, "ns": unit.ns, "decimals": unit.decimals},
        "layers": [
            {"name": legend.label(layer), "colour": legend.colour(layer)}
            for layer in (*charts.layers, None)
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


def _charts(charts: Charts, legend: Legend, unit: Unit, word: str) -> Iterator[str]:
    yield '<h2 id="time">Over time</h2>'
    yield f"<p>The mean {word} in each of {len(charts.over_time.counts)} stretches of time.</p>"
    yield from _chart("over_time", "Layers over time", charts, legend, unit, word)
    yield f'<h2 id="latency">By latency: what the slow {word}s have that the others have not</h2>'
    yield (
        f"<p>{word.capitalize()}s in order of their latency, from the fastest to p98: the mean of "
        "each part.</p>"
    )
    yield from _chart("body", "Layers by latency, up to p98", charts, legend, unit, word)
    yield "<h3>The slowest 2 %, on a scale of their own</h3>"
    if not charts.tail.counts:
        yield f"<p>There are too few {word}s for that.</p>"
        return
    title = "Layers by latency, from p98 to the slowest"
    yield from _chart("tail", title, charts, legend, unit, word)


def _chart(
    name: str, title: str, charts: Charts, legend: Legend, unit: Unit, word: str
) -> Iterator[str]:
    layers = (*charts.layers, None)
    yield (
        f'<div class="chart" data-chart="{name}"><div class="plot" tabindex="0" role="img" '
        f'aria-label="{title}; the table below has the numbers"></div>'
    )
    yield '<div class="legend" aria-live="polite"><span class="dim"></span>'
    for layer in layers:
        yield f"<span>{swatch(legend.colour(layer))}{escape(legend.label(layer))} <b></b></span>"
    yield "</div>"
    stack = {"over_time": charts.over_time, "body": charts.body, "tail": charts.tail}[name]
    yield f"<details><summary>The numbers, in {unit.name} a {word}</summary>"
    head = ("from", "to", f"{word}s", *(escape(legend.label(layer)) for layer in layers))
    rows = [row(head, tag="th")]
    for number, count in enumerate(stack.counts):
        edges = (f"{edge:.6g}" for edge in stack.edges[number : number + 2])
        cells = (unit.text(times[number], 12) for times in stack.mean_ns)
        rows.append(row((*edges, str(count), *cells)))
    yield from table(rows)
    yield "</details></div>"


def _quality(summary: Summary, facts: Mapping[str, Sequence[Fact]]) -> Iterator[str]:
    yield '<h2 id="quality">What the numbers rest on</h2>'
    yield "<dl>"
    for label, parts, style in quality.statements(summary):
        kind = "bad" if "red" in style else "warn" if style else ""
        yield f'<dt>{escape(label)}</dt><dd class="{kind}">{escape(", ".join(parts))}</dd>'
    yield "</dl>"
    for title, some in facts.items():
        yield f"<details><summary>{escape(title)}</summary><dl>"
        for fact in some:
            yield f"<dt>{escape(fact.name)}</dt><dd>{escape(fact.value)}</dd>"
        yield "</dl></details>"


def _footer() -> Iterator[str]:
    yield "<footer>Made by iostrata; charts by uPlot."
    yield "<details><summary>Licence of uPlot</summary>"
    yield f"<pre>{escape(_asset(UPLOT / 'LICENSE'))}</pre></details></footer>"
