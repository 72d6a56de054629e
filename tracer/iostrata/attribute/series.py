# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: several runs of one thing in, what they have in common and how they differ out.

Every run counts alike, however many writes it has: what would be different the next time is told
by runs, not by writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from iostrata.attribute.run import Figure, Run, RunGroup, left_out_of, served_in
from iostrata.attribute.selection import LayerKey, layers_of
from iostrata.attribute.student import quantile
from iostrata.model import Layer, Repeated, Series, SeriesGroup, SeriesRow

CONFIDENCE: Final = 0.95
NOTHING: Final = Figure(0.0, 0.0)


def series(runs: Sequence[Run]) -> Series:
    """Two runs or more; every group that all of them have."""
    names = list(dict.fromkeys(name for run in runs for name in run.groups))
    common = [name for name in names if all(name in run.groups for run in runs)]
    layers = layers_of(run.layers for run in runs)
    return Series(
        confidence=CONFIDENCE,
        groups=tuple(_group(name, [run.groups[name] for run in runs], layers) for name in common),
        not_in_all=tuple(name for name in names if name not in common),
        quality=tuple(run.quality for run in runs),
        op=runs[0].op,
        left_out=left_out_of(runs),
    )


def _group(name: str, runs: Sequence[RunGroup], layers: Mapping[LayerKey, Layer]) -> SeriesGroup:
    def repeated(figure: Callable[[RunGroup], Figure]) -> Repeated:
        return _repeated(tuple(figure(run).value_ns for run in runs))

    def of_layer(key: LayerKey) -> Callable[[RunGroup], Figure]:
        return lambda run: run.layers.get(key, NOTHING)

    total = repeated(lambda run: run.total)
    figures: list[tuple[Layer | None, Repeated]] = [
        (layer, repeated(of_layer(key)))
        for key, layer in layers.items()
        if any(key in run.layers for run in runs)
    ]
    figures.append((None, repeated(lambda run: run.residual)))
    return SeriesGroup(
        name=name,
        counts=tuple(run.count for run in runs),
        total=total,
        p50=repeated(lambda run: run.p50),
        p99=repeated(lambda run: run.p99),
        rows=tuple(
            SeriesRow(layer, figure, figure.mean_ns / total.mean_ns) for layer, figure in figures
        ),
        served=tuple(served_in(runs).values()),
    )


def _repeated(runs_ns: tuple[float, ...]) -> Repeated:
    """The interval is Student's; what takes time takes no less than none."""
    # Which is loaded where there are several runs only.
    from statistics import fmean, stdev  # noqa: PLC0415

    mean, count = fmean(runs_ns), len(runs_ns)
    reach = quantile((1 + CONFIDENCE) / 2, count - 1) * stdev(runs_ns) / count**0.5
    least = 0.0 if min(runs_ns) >= 0 else mean - reach
    return Repeated(mean, max(mean - reach, least), mean + reach, runs_ns)
