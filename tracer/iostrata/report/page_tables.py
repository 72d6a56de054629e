# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary's and an Estimate's numbers as tables of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from iostrata import units
from iostrata.model import Estimate, Excess, Figures, Layer, Part, Summary, Table, Tail
from iostrata.report import estimate, who
from iostrata.report.legend import UNATTRIBUTED, Legend
from iostrata.report.markup import row, swatch, table
from iostrata.report.quantity import Unit, share, unit_for
from iostrata.report.sections import headed, sections, subtotal_of

FIGURE_TITLES: Final = ("share", "mean", "p50", "p95", "p99", "max")
NO_LAYER: Final = "var(--dim)"


def layers(summary: Summary, legend: Legend) -> Iterator[str]:
    word = summary.op.word
    yield f'<h2 id="layers">Where a {word} spends its time</h2>'
    yield (
        f'<p class="dim">At each instant of a {word}, the deepest layer that is at work for it '
        "holds the time, so the rows and unattributed add up to the total.</p>"
    )
    yield from table(_layer_rows(summary.overall, legend, word))
    yield "<details><summary>What the rows mean</summary><dl>"
    for name, meaning in {one.layer.row: one.layer.meaning for one in summary.overall.rows}.items():
        yield f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>"
    yield f"<dt>{UNATTRIBUTED}</dt><dd>no layer was seen at work</dd></dl></details>"
    if len(summary.groups) > 1:
        for group in summary.groups:
            yield f"<details><summary>{escape(group.name)}: {group.count} {word}s</summary>"
            yield from table(_layer_rows(group, legend, word))
            yield "</details>"


def _layer_rows(found: Table, legend: Legend, word: str) -> Iterator[str]:
    unit = unit_for(found.total.mean_ns)
    yield row([f"{unit.name} a {word}", *FIGURE_TITLES, ""], tag="th")
    yield _figures("total", found.total, unit, NO_LAYER, "total")
    for section in sections(found.rows, lambda row: row.layer):
        if subtotal := subtotal_of(found.segments, section.place):
            colour = legend.segments.get(section.place, NO_LAYER)
            yield _figures(section.title, subtotal.figures, unit, colour, "segment")
        for one in section.rows:
            colour, meaning = legend.colour(one.layer), one.layer.meaning
            yield _figures(one.layer.row, one.figures, unit, colour, meaning=meaning)
            if one.behind:
                yield _behind(one.behind, unit)
    yield _figures(UNATTRIBUTED, found.residual, unit, legend.colour(None))
    for one_of_host in found.operators:
        yield _figures(one_of_host.name, one_of_host.figures, unit, NO_LAYER)


def served(summary: Summary) -> Iterator[str]:
    """What the reads were served from; of writes nothing."""
    if not summary.served:
        return
    yield '<h2 id="served">What served the reads</h2>'
    yield '<p class="dim">The furthest place that a read waited for.</p>'
    unit = unit_for(summary.overall.total.mean_ns)
    rows = [row(("served from", "reads", "share", f"{unit.name} each"), tag="th")]
    for one in summary.served:
        cells = (escape(one.name), str(one.count), share(one.share), unit.text(one.mean_ns, 12))
        rows.append(row(cells))
    yield from table(rows)


def _behind(parts: Sequence[Part], unit: Unit) -> str:
    """Who had what was waited for, on one line below its row."""
    texts = (
        f"{escape(name)} {unit.text(part.mean_ns, 12).strip()}"
        for name, part in who.shortened(parts)
    )
    cells = f'<td></td><td class="text dim" colspan="7">behind {", ".join(texts)}</td>'
    return f"<tr>{cells}</tr>"


def _figures(
    name: str, figures: Figures, unit: Unit, colour: str, kind: str = "", meaning: str = ""
) -> str:
    columns = (
        figures.mean_ns, figures.p50_ns, figures.p95_ns, figures.p99_ns, figures.max_ns,
    )  # fmt: skip
    title = f' title="{escape(meaning)}"' if meaning else ""
    width = max(0.0, min(figures.share, 1.0))
    filled = f'<i style="--layer:{colour};width:{width:.2%}"></i>' if width else ""
    bar = f'<td class="bar">{filled}</td>'
    cells = "".join(
        f"<td>{text}</td>"
        for text in (share(figures.share), *(unit.text(column, 12) for column in columns))
    )
    named = f"{'' if colour == NO_LAYER else swatch(colour)}{escape(name)}"
    kind = f' class="{kind}"' if kind else ""
    return f"<tr{kind}><td{title}>{named}</td>{cells}{bar}</tr>"


def tails(summary: Summary, legend: Legend) -> Iterator[str]:
    word = summary.op.word
    yield f'<h2 id="slow">The slowest 1 % beside the median {word}s</h2>'
    yield (
        f'<p class="dim">share: of what the slow {word}s took longer. leads: how many of them '
        "lose most of their time in that row.</p>"
    )
    several = len(summary.groups) > 1
    for found in summary.groups if several else (summary.overall,):
        if several:
            yield f"<h3>{escape(found.name)}</h3>"
        if not found.tail:
            yield f"<p>{found.count} {word}s are too few to tell a tail from the rest.</p>"
            continue
        yield from _tail(found, found.tail, legend, word)


def _tail(found: Table, tail: Tail, legend: Legend, word: str) -> Iterator[str]:
    yield (
        f"<p>The slowest {tail.slow} of {found.count} {word}s "
        f"({units.duration(tail.slow_from_ns)} and more) beside the middle {tail.typical} "
        f"({units.duration(tail.typical_from_ns)} to {units.duration(tail.typical_to_ns)}).</p>"
    )
    unit = unit_for(tail.total.slow_ns)
    columns = ("typical", "slow", "more", "share", "leads")

    def of(layer: Layer | None, excess: Excess) -> str:
        name = layer.row if layer else legend.label(None)
        return row([swatch(legend.colour(layer)) + escape(name), *_excess(excess, unit)])

    rows = [row((f"{unit.name} a {word}", *columns), tag="th")]
    rows.append(row(["total", *_excess(tail.total, unit)], "total"))
    several = headed(one.layer for one in tail.rows)
    for section in sections(tail.rows, lambda row: row.layer):
        subtotal = subtotal_of(tail.segments, section.place)
        if subtotal and several:
            cells = [escape(section.title), *_excess(subtotal.excess, unit)]
            rows.append(row(cells, "segment"))
        rows += [of(one.layer, one.excess) for one in section.rows]
    yield from table([*rows, of(None, tail.residual)])


def _excess(excess: Excess, unit: Unit) -> Sequence[str]:
    times = (excess.typical_ns, excess.slow_ns, excess.excess_ns)
    return [*(unit.text(time, 12) for time in times), share(excess.share), str(excess.leads)]


def arithmetic(found: Estimate) -> Iterator[str]:
    yield '<h2 id="estimate">Beside the arithmetic</h2>'
    yield (
        '<p class="dim">What ping, 1/IOPS and subtraction say of the mean write, and what was '
        "measured. What one guess lacks, others have too much.</p>"
    )
    rows = [row(("ms a write", *estimate.COLUMNS, "guessed from"), tag="th")]
    for guess in found.guesses:
        basis = estimate.FROM.get(guess.basis, "")
        rows.append(row((escape(estimate.name(guess)), *estimate.cells(guess), basis)))
    yield from table(rows)
    yield "<dl>"
    for label, text, style in estimate.notes(found):
        yield f'<dt>{escape(label)}</dt><dd class="{"warn" if style else ""}">{escape(text)}</dd>'
    yield "</dl>"
