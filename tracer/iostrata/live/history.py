# SPDX-License-Identifier: Apache-2.0
"""Live: intervals in, the LiveSummary that is shown out."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute import joined, select, tabulate, tabulate_weighed
from iostrata.columns import Ints
from iostrata.live.ended import UNKNOWN
from iostrata.live.interval import Interval, kinds_of, unlike_all, weights_of
from iostrata.model import Breakdown, LiveSummary, Table

MOST_INTERVALS: Final = 120
FEWEST: Final = 3
"""Parts of a time, of which it is known how much they differ."""


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
        recent = list(self._intervals)[-self._tabled :]
        parts = [part for one in self._intervals for part in _parts([one], chosen)]
        some = [part for part in _parts(recent, chosen) if part is not None]
        looked = sum(interval.events for interval in recent)
        skipped = sum(interval.skipped_events for interval in recent)
        seen = [one.seen_ns for one in recent if one.seen_ns is not None and UNKNOWN in one.kinds]
        return LiveSummary(
            table=_table(some),
            seconds=sum(interval.took_ns for interval in recent) / 1e9,
            sampled=looked / (looked + skipped) if skipped else 1.0,
            seen_ns=min(seen, default=None),
            writes_per_s=tuple(
                _count(interval, part, chosen) / max(interval.took_ns, 1) * 1e9
                for interval, part in zip(self._intervals, parts, strict=True)
            ),
            strips=_strips(parts),
            chosen=chosen,
            lost=recent[-1].lost if recent else {},
            hanging=recent[-1].hanging if recent else 0,
            error=_error(some) if some and skipped else 0.0,
            missing=_missing(recent) if skipped else 0.0,
        )


@dataclass(frozen=True, eq=False)
class _Part:
    """Chosen writes of an interval: for how many each of them stands, and of which kind it is."""

    breakdown: Breakdown
    weights: NDArray[np.float64]
    kinds: Ints


def _parts(intervals: Sequence[Interval], chosen: Mapping[str, str]) -> Iterator[_Part | None]:
    """One an interval, None: it has none. They stand for the writes of all of these."""
    for interval, weights in zip(intervals, weights_of(intervals), strict=True):
        breakdown = interval.breakdown
        if breakdown is None:
            yield None
        elif not chosen:
            yield _Part(breakdown, weights, interval.kinds)
        else:
            rows = np.flatnonzero(np.logical_and.reduce([*_masks(breakdown, chosen)]))
            part = _Part(select(breakdown, rows), weights[rows], interval.kinds[rows])
            yield part if len(rows) else None


def _table(some: Sequence[_Part]) -> Table | None:
    if not some:
        return None
    whole = joined([part.breakdown for part in some])
    weights = np.concatenate([part.weights for part in some])
    if (weights == 1).all():
        return tabulate(whole, "all", np.arange(len(weights)))
    return tabulate_weighed(whole, "all", weights)


def _count(interval: Interval, part: _Part | None, chosen: Mapping[str, str]) -> float:
    """How many chosen writes there were; unlike those that were looked at any may be."""
    unlike = 0 if chosen else sum(kind.calls for kind in unlike_all([interval]))
    return unlike + (float(part.weights.sum()) if part else 0.0)


def _missing(recent: Sequence[Interval]) -> float:
    """The part of all time in calls that are like none that was looked at."""
    time_ns = sum(kind.time_ns for kind in kinds_of(recent).values())
    return sum(kind.time_ns for kind in unlike_all(recent)) / max(time_ns, 1)


def _error(some: Sequence[_Part]) -> float | None:
    """Two standard errors of the mean of all writes, as a part of it: of some of their time whole
    parts were looked at, in which they are much alike (a ratio of sums over such clusters). How
    many there were of a known kind is exact: alone within it they may be others."""
    if len(some) < FEWEST:
        return None
    latency = np.concatenate([part.breakdown.writes.latency_ns for part in some])
    weights = np.concatenate([part.weights for part in some])
    kinds, kind = np.unique(np.concatenate([part.kinds for part in some]), return_inverse=True)
    time_ns = np.bincount(kind, weights * latency)
    means, mean = time_ns / np.bincount(kind, weights), time_ns.sum() / weights.sum()
    means[kinds == UNKNOWN] = mean
    of = np.repeat(np.arange(len(some)), [len(part.kinds) for part in some])
    off_ns = np.bincount(of, weights * (latency - means[kind]))
    spread = math.sqrt((off_ns**2).sum() * len(some) / (len(some) - 1))
    return 2 * spread / float(time_ns.sum()) if mean else None


def _masks(breakdown: Breakdown, chosen: Mapping[str, str]) -> Iterator[Ints]:
    writes = breakdown.writes
    for column, name in chosen.items():
        names = writes.names[column]
        yield writes.codes[column] == (names.index(name) if name in names else -1)


def _strips(
    parts: Sequence[_Part | None],
) -> dict[tuple[str, str], tuple[float | None, ...]]:
    """Mean ns a write of each layer in each interval; ``total`` and ``unattributed`` as well."""
    rows: dict[tuple[str, str], list[float | None]] = {}
    for number, part in enumerate(parts):
        if part is None:
            continue
        told, weights = part.breakdown, part.weights / part.weights.sum()
        means = dict(zip(told.layers, (told.time_ns @ weights).tolist(), strict=True))
        held = {(layer.machine, layer.name): mean for layer, mean in means.items()}
        held["", "total"] = float(told.writes.latency_ns @ weights)
        held["", "unattributed"] = float(told.residual_ns @ weights)
        for key, mean in held.items():
            rows.setdefault(key, [None] * len(parts))[number] = mean
    return {key: tuple(strip) for key, strip in rows.items()}
