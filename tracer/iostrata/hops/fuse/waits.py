# SPDX-License-Identifier: Apache-2.0
"""Hop fuse: the daemon's threads that could have taken a request up, and had no CPU."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, at, columns_of
from iostrata.hops.hop import Context, Held, Link
from iostrata.hops.waits import taken_late


def waiting_of(link: Link, held: Held) -> Context | None:
    """The thread that took each request up, from when it was let go for it until it ran."""
    row, serve = link.served(held.ask)
    taken = link.lower.pieces.begin_ns[link.serves.piece[serve]]
    # Who takes a request up need not be who answers it.
    takes = columns_of(link.lower.trace.points["fuse_take"], "tid")
    none = np.zeros(len(taken), np.int64)
    take = AsOf(np.zeros(len(takes["tid"]), np.int64), takes["time_ns"]).at_or_before(none, taken)
    answers = columns_of(link.lower.trace.points["fuse_request"], "tid")
    who = np.concatenate([answers["tid"], takes["tid"]])
    busy = np.concatenate([answers["time_ns"], takes["time_ns"]])
    return taken_late(link, held, (row, at(takes["tid"], take), taken), (who, busy), none[:0])
