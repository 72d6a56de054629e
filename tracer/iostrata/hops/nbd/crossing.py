# SPDX-License-Identifier: Apache-2.0
"""Hop nbd: from the client's driver to the server's system call, and back."""

from __future__ import annotations

import numpy as np

from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans


def crossing_of(link: Link, held: Held) -> Spans:
    """What the client's driver does before it has sent, and once it has the reply, is its own.

    The server's process is seen in its system calls only: what it does before the first
    and after the last is on the way.
    """
    asks = link.asks.rows(held.ask)
    sent, answered = asks.told_ns, asks.heard_ns
    first = np.where(held.first_ns >= 0, np.clip(held.first_ns, sent, answered), answered)
    last = np.where(held.last_ns >= 0, np.clip(held.last_ns, first, answered), answered)
    spans, row = SpanList(), np.arange(len(held.ask))
    spans.add(row, "nbd.there", np.maximum(sent, held.begin_ns), np.minimum(first, held.end_ns))
    spans.add(row, "nbd.back", np.maximum(last, held.begin_ns), np.minimum(answered, held.end_ns))
    return spans.collect()
