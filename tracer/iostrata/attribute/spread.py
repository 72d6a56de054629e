# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: a Breakdown in, how its latencies spread, and how they went over time, out."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute.charts import bins_over_time, stack_of
from iostrata.columns import Ints, distinct
from iostrata.model import Bin, Breakdown, Course, OverTime

# Edges in each power of ten, the finest first.
STEPS: Final = (
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
    (1,),
)
MOST_BINS: Final = 24
"""They are to be seen at once."""

LARGEST_ROWS: Final = 4


Means = NDArray[np.float64]


def histogram(breakdown: Breakdown) -> tuple[Bin, ...]:
    """The writes by latency, in bins of round edges (ns) whose width grows with it."""
    latency = breakdown.writes.latency_ns
    edges = _edges(max(int(latency.min()), 1), max(int(latency.max()), 1))
    place = np.clip(np.searchsorted(edges, latency, side="right") - 1, 0, len(edges) - 2)
    stack = stack_of(breakdown, place, tuple(edges.tolist()))
    below = np.cumsum(stack.counts)
    return tuple(
        _bin(breakdown, edges, number, count, int(below[number]), column)
        for number, (count, column) in enumerate(
            zip(stack.counts, np.array(stack.mean_ns).T, strict=True)
        )
    )


def _bin(
    breakdown: Breakdown,
    edges: Ints,
    number: int,
    count: int,
    below: int,
    means: Means,
) -> Bin:
    of, mean_ns, held = len(breakdown.writes), float(means.sum()), means[:-1]
    most = int(held.argmax()) if len(held) and held.max() > 0 else None
    return Bin(
        low=float(edges[number]),
        high=float(edges[number + 1]),
        count=count,
        share=count / of,
        up_to=below / of,
        mean_ns=mean_ns if count else None,
        layer=None if most is None else breakdown.layers[most],
        layer_share=0.0 if most is None else float(held[most]) / mean_ns,
    )


def _edges(low: int, high: int) -> Ints:
    """From the edge at or below ``low`` to the first one above ``high``, in ns."""
    for steps in STEPS:
        scale = 10.0 ** np.arange(18)
        # Below 10 ns some are equal.
        edges = distinct(np.round(np.multiply.outer(scale, steps).ravel()).astype(np.int64))
        edges = edges[edges > 0]
        first = int(np.searchsorted(edges, low, side="right")) - 1
        last = int(np.searchsorted(edges, high, side="right"))
        found: Ints = edges[first : last + 1]
        if len(found) <= MOST_BINS + 1:
            break
    return found


def over_time(breakdown: Breakdown, intervals: int) -> OverTime:
    """Latency and the largest rows' shares of it in so many equal stretches of time, or fewer."""
    stack = bins_over_time(breakdown, intervals)
    counts, means = np.array(stack.counts), np.array(stack.mean_ns)
    seconds = np.diff(stack.edges)
    total = means.sum(axis=0)
    held = (means * counts).sum(axis=1)
    rows = np.argsort(-held[:-1], kind="stable")[:LARGEST_ROWS]
    rows = np.sort(rows[held[:-1][rows] > 0])
    names = [layer.name for layer in breakdown.layers] + ["unattributed"]

    def course(name: str, values: Means) -> Course:
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        return Course(name, tuple(value if count else None for value, count in pairs))

    return OverTime(
        edges_s=stack.edges,
        writes_per_s=Course(f"{breakdown.op.word}s/s", tuple((counts / seconds).tolist())),
        mean_ns=course("total", total),
        shares=tuple(
            course(names[row], means[row] / np.maximum(total, 1e-9))
            for row in (*rows.tolist(), *[len(names) - 1] * bool(held[-1] > 0))
        ),
    )
