# SPDX-License-Identifier: Apache-2.0
"""Live: intervals in, the LiveSummary that is shown out."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from iostrata.attribute import joined, select, tabulate
from iostrata.columns import Ints
from iostrata.live.interval import Interval
from iostrata.model import Breakdown, LiveSummary

MOST_INTERVALS: Final = 120
FEWEST: Final = 3
"""Parts of a time, of which it is known how much they differ."""
MOST_ROWS: Final = 20_000
"""So many writes stand for those of some seconds, where not all of them were looked at."""


class History:
    """The last intervals. ``intervals``: how many the table is of; the strips are of all."""

    def __init__(self, intervals: int) -> None:
        self._tabled = intervals
        self._intervals: deque[Interval] = deque(maxlen=MOST_INTERVALS)

    def add(self, interval: Interval) -> None:
        self._intervals.append(interval)

    def names(self, column: str) -> tuple[str, ...]:
        """The names in a column of codes (``method``, ...), most frequent first."""
        counts: Counter[str] = Counter()
        for interval in self._intervals:
            if interval.breakdown:
                writes = interval.breakdown.writes
                found = np.bincount(writes.codes[column], minlength=len(writes.names[column]))
                counts.update(dict(zip(writes.names[column], found.tolist(), strict=True)))
        return tuple(name for name, count in counts.most_common() if count)

    def summary(self, chosen: Mapping[str, str]) -> LiveSummary:
        """Of the writes that have the chosen name in each of these columns."""
        parts = [_chosen(interval.breakdown, chosen) for interval in self._intervals]
        recent = list(self._intervals)[-self._tabled :]
        found = zip(parts[-self._tabled :], recent, strict=True)
        some = [(part, interval) for part, interval in found if part is not None]
        looked = sum(interval.events for interval in recent)
        skipped = sum(interval.skipped_events for interval in recent)
        whole = _weighed(some) if some else None
        return LiveSummary(
            table=tabulate(whole, "all", np.arange(len(whole.writes))) if whole else None,
            seconds=sum(interval.took_ns for interval in recent) / 1e9,
            sampled=looked / (looked + skipped) if skipped else 1.0,
            seen_ns=min((one.seen_ns for one in recent if one.seen_ns is not None), default=None),
            writes_per_s=tuple(
                interval.happened(len(part.writes)) / interval.took_ns * 1e9 if part else 0.0
                for interval, part in zip(self._intervals, parts, strict=True)
            ),
            strips=_strips(parts),
            chosen=chosen,
            lost=recent[-1].lost if recent else {},
            hanging=recent[-1].hanging if recent else 0,
            error=_error(some) if some and skipped else 0.0,
        )


def _weighed(some: Sequence[tuple[Breakdown, Interval]]) -> Breakdown:
    """Each interval's writes as often as it had such ones, looked at or not: of a busy one, where
    they are many and mostly short, the smallest part is looked at."""
    whole = joined([part for part, _ in some])
    if all(interval.each == 1 for _, interval in some):
        return whole
    counts = np.array([len(part.writes) for part, _ in some])
    had = counts * np.array([interval.each for _, interval in some])
    wanted = np.ceil(had * min(1.0, MOST_ROWS / had.sum())).astype(np.int64)
    firsts = np.cumsum(counts) - counts
    parts = zip(firsts.tolist(), counts.tolist(), wanted.tolist(), strict=True)
    rows = [first + np.arange(rows) * count // rows for first, count, rows in parts]
    return select(whole, np.concatenate(rows))


def _error(some: Sequence[tuple[Breakdown, Interval]]) -> float | None:
    """Two standard errors of the mean of all writes, as a part of it: of some of their time whole
    parts were looked at, in which they are much alike (a ratio of sums over such clusters)."""
    if len(some) < FEWEST:
        return None
    counts = np.array([len(part.writes) * interval.each for part, interval in some])
    means = np.array([part.writes.latency_ns.mean() for part, _ in some])
    mean = (counts * means).sum() / counts.sum()
    spread = math.sqrt((counts**2 * (means - mean) ** 2).sum() * len(some) / (len(some) - 1))
    return 2 * spread / float(counts.sum() * mean) if mean else None


def _chosen(breakdown: Breakdown | None, chosen: Mapping[str, str]) -> Breakdown | None:
    if breakdown is None or not chosen:
        return breakdown
    rows = np.flatnonzero(np.logical_and.reduce([*_masks(breakdown, chosen)]))
    return select(breakdown, rows) if len(rows) else None


def _masks(breakdown: Breakdown, chosen: Mapping[str, str]) -> Iterator[Ints]:
    writes = breakdown.writes
    for column, name in chosen.items():
        names = writes.names[column]
        yield writes.codes[column] == (names.index(name) if name in names else -1)


def _strips(
    parts: list[Breakdown | None],
) -> dict[tuple[str, str], tuple[float | None, ...]]:
    """Mean ns a write of each layer in each interval; ``total`` and ``unattributed`` as well."""
    rows: dict[tuple[str, str], list[float | None]] = {}
    for number, part in enumerate(parts):
        if part is None:
            continue
        means = dict(zip(part.layers, part.time_ns.mean(axis=1).tolist(), strict=True))
        held = {(layer.machine, layer.name): mean for layer, mean in means.items()}
        held["", "total"] = float(part.writes.latency_ns.mean())
        held["", "unattributed"] = float(part.residual_ns.mean())
        for key, mean in held.items():
            rows.setdefault(key, [None] * len(parts))[number] = mean
    return {key: tuple(strip) for key, strip in rows.items()}
