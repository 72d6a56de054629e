# SPDX-License-Identifier: Apache-2.0
"""Hop vfio: from the guest's driver to its disk's interrupt at the host, and into the guest."""

from __future__ import annotations

import numpy as np

from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans


def crossing_of(link: Link, held: Held) -> Spans:
    """Nothing of what no interrupt was seen for."""
    asks = link.asks.rows(held.ask)
    row = np.where(held.last_ns >= 0, np.arange(len(held.ask)), -1)
    reached = np.clip(held.last_ns, asks.begin_ns, asks.end_ns)
    spans = SpanList()
    for rank, begin, end in (
        ("vfio.device", asks.begin_ns, reached),
        ("kvm.inject", reached, asks.end_ns),
    ):
        spans.add(row, rank, np.maximum(begin, held.begin_ns), np.minimum(end, held.end_ns))
    return spans.collect()
