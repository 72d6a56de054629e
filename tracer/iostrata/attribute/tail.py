# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: a Breakdown in, how its slowest writes differ from its typical ones out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute.figures import ranked
from iostrata.columns import Ints
from iostrata.model import Breakdown, Excess, Tail, TailRow, TailSegment

SLOW_PERCENT: Final = 1
TYPICAL_PERCENT: Final = (45, 55)
FEWEST: Final = 20


def tail(breakdown: Breakdown, writes: Ints) -> Tail | None:
    """The slowest 1 % of some writes (row indices) against the middle tenth, layer by layer.

    None below ``FEWEST`` writes: there is no tenth in the middle then.
    """
    count = len(writes)
    if count < FEWEST:
        return None
    latency = breakdown.writes.latency_ns
    took = latency[writes] if count < len(latency) else latency
    slow_from = count - max(-(-count * SLOW_PERCENT // 100), 1)
    first, last = (count * percent // 100 for percent in TYPICAL_PERCENT)
    edges = ranked(took, [slow_from, count - 1, first, last - 1])
    slow = writes[_between(took, slow_from, count, edges[:2])]
    typical = writes[_between(took, first, last, edges[2:])]
    parts_typical, parts_slow = _parts(breakdown, typical), _parts(breakdown, slow)
    *layers, residual = _excesses(parts_typical, parts_slow)
    places = list(dict.fromkeys((layer.segment, layer.machine) for layer in breakdown.layers))
    place = [places.index((layer.segment, layer.machine)) for layer in breakdown.layers]
    # The residual is a place of its own, the last.
    of_typical, of_slow = (
        _together(parts, [*place, len(places)]) for parts in (parts_typical, parts_slow)
    )
    *segments, _ = _excesses(of_typical, of_slow)
    return Tail(
        slow=len(slow),
        slow_from_ns=edges[0],
        typical=len(typical),
        typical_from_ns=edges[2],
        typical_to_ns=edges[3],
        total=_excesses(latency[np.newaxis, typical], latency[np.newaxis, slow])[0],
        rows=tuple(
            TailRow(layer, excess)
            for layer, excess in zip(breakdown.layers, layers, strict=True)
            if _some(excess)
        ),
        residual=residual,
        segments=tuple(
            TailSegment(*named, excess)
            for named, excess in zip(places, segments, strict=True)
            if _some(excess)
        ),
    )


def _between(values: Ints, first: int, last: int, edges: Sequence[int]) -> Ints:
    """Rows that are from place ``first`` until before ``last`` in the stable order of the values.

    ``edges``: the first one's value, and the last one's.
    """
    low, high = edges
    found = [np.flatnonzero((values > low) & (values < high))]
    for edge in dict.fromkeys(edges):
        before = int(np.count_nonzero(values < edge))
        found.append(np.flatnonzero(values == edge)[max(first - before, 0) : last - before])
    return np.concatenate(found)


def _parts(breakdown: Breakdown, writes: Ints) -> NDArray[np.int64]:
    """One table of all that adds up to the latency: the layers, then the residual."""
    return np.vstack([breakdown.time_ns[:, writes], breakdown.residual_ns[writes]])


def _together(parts_ns: NDArray[np.int64], place: list[int]) -> NDArray[np.int64]:
    """The rows of each place as one."""
    sums = np.zeros((max(place) + 1, parts_ns.shape[1]), np.int64)
    for row, part_ns in zip(place, parts_ns, strict=True):
        sums[row] += part_ns
    return sums


def _excesses(typical_ns: NDArray[np.int64], slow_ns: NDArray[np.int64]) -> list[Excess]:
    """Of each row, where all rows together are the latency."""
    typical, slow = (parts.sum(axis=1) / parts.shape[1] for parts in (typical_ns, slow_ns))
    leaders = np.argmax(slow_ns - typical[:, np.newaxis], axis=0)
    leads = np.bincount(leaders, minlength=len(typical))
    more = slow - typical
    share = more / more.sum() if more.sum() else np.zeros(len(more))
    return [
        Excess(*figures)
        for figures in zip(
            typical.tolist(), slow.tolist(), more.tolist(), share.tolist(), leads.tolist(),
            strict=True,
        )
    ]  # fmt: skip


def _some(excess: Excess) -> bool:
    return bool(excess.typical_ns or excess.slow_ns or excess.leads)
