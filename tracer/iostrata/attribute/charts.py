# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: a Breakdown in, mean writes of a few hundred bins out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, order_of
from iostrata.model import Breakdown, Charts, Stack

MOST_BINS: Final = 240
WRITES_A_BIN: Final = 4
BODY_PERCENT: Final = tuple(range(0, 100, 2))
TAIL_PERCENT: Final = (98.0, 98.5, 99.0, 99.5, 99.9, 99.99, 100.0)


def charts(breakdown: Breakdown) -> Charts:
    """What the page draws; a million writes or ten, it is as small."""
    parts = _parts(breakdown)
    order = order_of(breakdown.writes.latency_ns)
    return Charts(
        layers=breakdown.layers,
        over_time=bins_over_time(breakdown, MOST_BINS),
        body=_by_rank(parts, order, tuple(map(float, BODY_PERCENT))),
        tail=_by_rank(parts, order, TAIL_PERCENT),
    )


def bins_over_time(breakdown: Breakdown, most: int) -> Stack:
    """Stretches of time of one length, so few that each has some writes on average."""
    passed = breakdown.writes.passed_ns
    bins = max(min(most, len(passed) // WRITES_A_BIN), 1)
    # Some of a recording's writes may begin late in it.
    begin = int(passed.min())
    span = max(int(passed.max()) - begin, 1)
    place = np.minimum((passed - begin) * bins // span, bins - 1)
    edges = tuple((begin / 1e9 + np.arange(bins + 1) * (span / 1e9 / bins)).tolist())
    return stack_of(breakdown, place, edges)


def stack_of(breakdown: Breakdown, place: Ints, edges: tuple[float, ...]) -> Stack:
    """All writes, each in the bin of its ``place``."""
    return _stack(_parts(breakdown), place, edges)


def _parts(breakdown: Breakdown) -> list[Ints]:
    return [*breakdown.time_ns, breakdown.residual_ns]


def _by_rank(parts: Sequence[Ints], order: Ints, percents: tuple[float, ...]) -> Stack:
    count = len(order)
    firsts = np.ceil(np.array(percents) / 100 * count - 1e-9).astype(np.int64)
    # A bin that so few writes leave empty is part of the one before it.
    kept = np.append(np.diff(firsts) > 0, True)
    percents, firsts = tuple(np.array(percents)[kept].tolist()), firsts[kept]
    inside = order[firsts[0] : firsts[-1]]
    bins = firsts[:-1] - firsts[0]
    sums = np.stack([np.add.reduceat(row[inside], bins) for row in parts])
    return _means(sums, np.diff(firsts), percents)


def _stack(parts: Sequence[Ints], place: Ints, edges: tuple[float, ...]) -> Stack:
    bins = len(edges) - 1
    counts = np.bincount(place, minlength=bins)
    sums = np.stack([np.bincount(place, weights=row, minlength=bins) for row in parts])
    return _means(sums, counts, edges)


def _means(sums: NDArray[Any], counts: Ints, edges: tuple[float, ...]) -> Stack:
    means = sums / np.maximum(counts, 1)
    return Stack(edges, tuple(counts.tolist()), tuple(tuple(row) for row in means.tolist()))
