# SPDX-License-Identifier: Apache-2.0
"""Hops of messages: asks as they were waited for in, their way there and back out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints
from iostrata.hops.hop import Asks, Held, Link
from iostrata.stitch import SpanList, Spans


def carried(link: Link, held: Held, queue: str) -> Spans:
    """Before it is sent, and once the answer is there, it is the asker's own.

    ``queue``: the rank of what is there until somebody begins to carry it out. An answer that never
    came was not on its way: nothing is known of what was waited for then.
    """
    spans, owner, asks = SpanList(), np.arange(len(held.ask)), link.asks.rows(held.ask)
    told, (answered, heard) = asks.told_ns, heard_of(asks)
    first, last = np.clip(held.first_ns, told, heard), np.clip(held.last_ns, told, heard)
    there = np.maximum(told, held.begin_ns), np.minimum(first, held.end_ns)
    back = np.maximum(last, held.begin_ns), np.minimum(heard, held.end_ns)
    spans.add(owner, "network.there", *there)
    spans.add(np.where(answered, owner, -1), "network.back", *back)
    spans.add(np.where(answered, -1, owner), "unfollowed", *back)
    row, serve = link.served(held.ask)
    taken = link.clock.to_upper(link.lower.pieces.begin_ns[link.serves.piece[serve]])
    begin = np.maximum(link.begin_ns[serve], told[row])
    spans.add(row, queue, begin, np.minimum(taken, held.end_ns[row]))
    return spans.collect()


def heard_of(asks: Asks) -> tuple[NDArray[np.bool_], Ints]:
    """Which of some asks were answered, and when; of the others, when that was given up."""
    answered = asks.heard_ns >= 0
    return answered, np.where(answered, asks.heard_ns, asks.end_ns)
