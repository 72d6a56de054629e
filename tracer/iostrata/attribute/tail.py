# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: a Breakdown in, how its slowest writes differ from its typical ones out."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, order_of
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
    order = order_of(breakdown.writes.latency_ns[writes])
    slow = writes[order[-max(-(-count * SLOW_PERCENT // 100), 1) :]]
    first, last = (count * percent // 100 for percent in TYPICAL_PERCENT)
    typical = writes[order[first:last]]

    latency = breakdown.writes.latency_ns
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
        slow_from_ns=int(latency[slow[0]]),
        typical=len(typical),
        typical_from_ns=int(latency[typical[0]]),
        typical_to_ns=int(latency[typical[-1]]),
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
