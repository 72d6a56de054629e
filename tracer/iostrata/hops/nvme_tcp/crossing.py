# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: what a command spent between initiator and target."""

from __future__ import annotations

import numpy as np

from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans


def crossing_of(link: Link, held: Held) -> Spans:
    """Before it has sent, and once the response is there, it is the initiator's own."""
    spans, owner, asks = SpanList(), np.arange(len(held.ask)), link.asks.rows(held.ask)
    told, heard = asks.told_ns, asks.heard_ns
    first, last = np.clip(held.first_ns, told, heard), np.clip(held.last_ns, told, heard)
    there = np.maximum(told, held.begin_ns), np.minimum(first, held.end_ns)
    back = np.maximum(last, held.begin_ns), np.minimum(heard, held.end_ns)
    spans.add(owner, "network.there", *there)
    spans.add(owner, "network.back", *back)
    row, serve = link.served(held.ask)
    taken = link.clock.to_upper(link.lower.pieces.begin_ns[link.serves.piece[serve]])
    begin = np.maximum(link.begin_ns[serve], told[row])
    spans.add(row, "target.queue", begin, np.minimum(taken, held.end_ns[row]))
    return spans.collect()
