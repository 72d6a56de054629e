# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: a Breakdown in, how its slowest writes differ from its typical ones out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.model import Breakdown, Excess, Tail, TailRow
from iostrata.stitch.join import Ints

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
    order = np.argsort(breakdown.writes.latency_ns[writes], kind="stable")
    slow = writes[order[-max(-(-count * SLOW_PERCENT // 100), 1) :]]
    first, last = (count * percent // 100 for percent in TYPICAL_PERCENT)
    typical = writes[order[first:last]]

    # One table of all that adds up to the latency: the layers, then the residual.
    parts_slow = np.vstack([breakdown.time_ns[:, slow], breakdown.residual_ns[slow]])
    parts_typical = np.vstack([breakdown.time_ns[:, typical], breakdown.residual_ns[typical]])
    typical_mean = parts_typical.sum(axis=1) / len(typical)
    slow_mean = parts_slow.sum(axis=1) / len(slow)
    leaders = np.argmax(parts_slow - typical_mean[:, np.newaxis], axis=0)
    leads = np.bincount(leaders, minlength=len(typical_mean))
    latency = breakdown.writes.latency_ns
    total = float(latency[slow].sum()) / len(slow) - float(latency[typical].sum()) / len(typical)

    def excess(row: int) -> Excess:
        return _excess(typical_mean[row], slow_mean[row], total, int(leads[row]))

    rows = tuple(
        TailRow(layer, excess(number))
        for number, layer in enumerate(breakdown.layers)
        if leads[number] or parts_slow[number].any() or parts_typical[number].any()
    )
    return Tail(
        slow=len(slow),
        slow_from_ns=int(latency[slow[0]]),
        typical=len(typical),
        typical_from_ns=int(latency[typical[0]]),
        typical_to_ns=int(latency[typical[-1]]),
        total=_excess(latency[typical].mean(), latency[slow].mean(), total, len(slow)),
        rows=rows,
        residual=excess(len(breakdown.layers)),
    )


def _excess(typical: np.float64, slow: np.float64, total: float, leads: int) -> Excess:
    more = float(slow - typical)
    return Excess(float(typical), float(slow), more, more / total if total else 0.0, leads)
