# SPDX-License-Identifier: Apache-2.0
"""Hop nfs: what a call spent between client and server."""

from __future__ import annotations

import numpy as np

from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans


def crossing_of(link: Link, held: Held) -> Spans:
    """Network is what the round trip took beside the server's residence: no clock is needed
    for their sum, and only the split into there and back rests on one."""
    spans, owner = SpanList(), np.arange(len(held.ask))
    row, serve = link.served(held.ask)
    taken = link.clock.to_upper(link.lower.pieces.begin_ns[link.serves.piece[serve]])
    spans.add(owner, "network.there", held.begin_ns, np.minimum(held.first_ns, held.end_ns))
    spans.add(row, "svc.queue", link.begin_ns[serve], np.minimum(taken, held.end_ns[row]))
    spans.add(owner, "network.back", np.maximum(held.last_ns, held.begin_ns), held.end_ns)
    return spans.collect()
