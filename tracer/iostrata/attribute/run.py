# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: one run's Breakdown in, the few figures that comparing runs needs out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from iostrata.attribute.batches import FEWEST, Batches
from iostrata.attribute.figures import percentiles
from iostrata.attribute.selection import LayerKey
from iostrata.attribute.summarise import named, served_of
from iostrata.columns import Ints, rows_of
from iostrata.model import Breakdown, Layer, Op, Quality, Served, ServedInRuns, Writes

MIX_COLUMNS: Final = ("method", "size", "device")


@dataclass(frozen=True)
class Figure:
    """A mean or a percentile in ns, and its standard error; None: too few writes to tell."""

    value_ns: float
    error_ns: float | None


@dataclass(frozen=True)
class RunGroup:
    """Law: the layers' values and the residual's add up to the total's.

    ``served``: of reads, by the name of the place that did.
    """

    count: int
    total: Figure
    p50: Figure
    p99: Figure
    layers: Mapping[LayerKey, Figure]
    residual: Figure
    served: Mapping[str, Served] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One recording. ``layers``: in order; ``parts``: of each column, the part of each name.

    ``created``: ISO 8601, empty where nobody noted it. ``op``: what the "writes" are.
    ``left_out``: those that were not analysed, by reason. ``place``: where it is, which is no
    other's; empty: nowhere.
    """

    layers: tuple[Layer, ...]
    groups: Mapping[str, RunGroup]
    parts: Mapping[str, Mapping[str, float]]
    quality: Quality
    created: str = ""
    op: Op = Op.SYNC
    left_out: Mapping[str, int] = field(default_factory=dict)
    place: str = ""

    @property
    def unfollowed(self) -> float:
        """Of the recording's writes, the part of which not all was followed to other machines."""
        whole = self.quality.selection
        count = whole.of if whole else sum(group.count for group in self.groups.values())
        return self.quality.unfollowed / max(count, 1)


def left_out_of(runs: Sequence[Run]) -> dict[str, int]:
    """By all of them."""
    return dict(sum((Counter(run.left_out) for run in runs), Counter()))


def run_of(breakdown: Breakdown, by: str = "", created: str = "", place: str = "") -> Run:
    """Figures of every group of ``by``; empty: of all writes together. Errors: UsageError."""
    count = len(breakdown.writes)
    return Run(
        layers=breakdown.layers,
        groups={
            name: _group(breakdown, rows) for name, rows in _groups(breakdown.writes, by).items()
        },
        parts={
            column: {
                name: len(rows) / count for name, rows in _groups(breakdown.writes, column).items()
            }
            for column in MIX_COLUMNS
        },
        quality=breakdown.quality,
        created=created,
        op=breakdown.op,
        left_out=breakdown.left_out,
        place=place,
    )


def _groups(writes: Writes, by: str) -> dict[str, Ints]:
    if not by:
        return {"all": np.arange(len(writes))}
    codes, names = named(writes, by)
    return {names[code]: rows for code, rows in rows_of(codes).items()}


def _group(breakdown: Breakdown, writes: Ints) -> RunGroup:
    count = len(writes)
    latency = breakdown.writes.latency_ns
    rows = [*breakdown.time_ns, breakdown.residual_ns, latency]
    if count < len(latency):
        rows = [row[writes] for row in rows]
        latency = rows[-1]
    batches = Batches(count) if count >= FEWEST else None
    means = np.array([row.sum() for row in rows]) / count
    errors = batches.errors(rows).tolist() if batches else [None] * len(rows)
    *layers, residual, total = (Figure(*of) for of in zip(means.tolist(), errors, strict=True))

    def at(percent: float) -> Figure:
        (value,) = percentiles(latency, [percent])
        error = batches.error_of_percentile(latency, percent) if batches else None
        return Figure(float(value), error)

    return RunGroup(
        count=count,
        total=total,
        p50=at(50),
        p99=at(99),
        layers={
            (layer.machine, layer.name): figure
            for layer, figure, times in zip(breakdown.layers, layers, rows, strict=False)
            if times.any()
        },
        residual=residual,
        served={one.name: one for one in served_of(breakdown.writes, writes)},
    )


def served_in(runs: Sequence[RunGroup]) -> dict[str, ServedInRuns]:
    """Every place that served a read of any of the runs, most first; each run counts alike."""
    names = dict.fromkeys(name for run in runs for name in run.served)
    found = [served_by(name, runs) for name in names]
    return {one.name: one for one in sorted(found, key=lambda one: -one.share)}


def served_by(name: str, runs: Sequence[RunGroup]) -> ServedInRuns:
    """What one place served of each run's reads."""
    here = [run.served.get(name) for run in runs]
    shares = tuple(one.share if one else 0.0 for one in here)
    took = [one.mean_ns for one in here if one]
    mean_ns = sum(took) / len(took) if took else None
    return ServedInRuns(name, shares, sum(shares) / len(shares), mean_ns)
