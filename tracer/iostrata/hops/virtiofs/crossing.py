# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: from the guest's file system to the daemon's thread, and back."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.hops.hop import Held, Link
from iostrata.hops.virtiofs.busy import busy_of
from iostrata.stitch import SpanList, Spans


def crossing_of(link: Link, held: Held) -> Spans:
    """Until the thread that took it up had done with another one, it was in its queue."""
    spans, row = SpanList(), np.arange(len(held.ask))
    first = np.minimum(held.first_ns, held.end_ns)
    queued = np.clip(_free(link, held), held.begin_ns, np.maximum(first, held.begin_ns))
    spans.add(row, "virtiofs.queue", held.begin_ns, queued)
    spans.add(row, "virtiofs.there", queued, first)
    spans.add(row, "virtiofs.back", np.maximum(held.last_ns, held.begin_ns), held.end_ns)
    return spans.collect()


def _free(link: Link, held: Held) -> Ints:
    """When the thread that took each up had answered the one before, in the upper machine's clock;
    0: it had none."""
    row, serve = link.served(held.ask)
    pieces = link.lower.pieces.rows(link.serves.piece[serve])
    _, ended = busy_of(link, pieces)
    before = AsOf(*ended).at_or_before(pieces.tid, pieces.begin_ns - 1)
    free = np.zeros(len(held.ask), np.int64)
    known = np.flatnonzero(before >= 0)
    when = link.clock.to_upper(at(ended[1], before[known]))
    np.maximum.at(free, row[known], when)
    return free
