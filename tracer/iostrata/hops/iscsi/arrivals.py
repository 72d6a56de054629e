# SPDX-License-Identifier: Apache-2.0
"""Hop iscsi: where in its connection's stream something ends in, when that had come in out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, order_of
from iostrata.hops.connections import number_of
from iostrata.stitch import Window

BEGIN: Final = "target_sequencer_start"
READY: Final = "target_ready"
CIRCLE: Final = 1 << 32
"""So many bytes have numbers of their own in a stream."""


def came_in(window: Window, group: Ints, sequence: Ints, read_ns: Ints) -> Ints:
    """When the last byte before some places was there, in ns; -1: that was not told.

    ``sequence``: the number of the byte behind each place, up to which somebody had read at
    ``read_ns``; ``group``: of which connection. What is told of a connection first came at some
    time before.
    """
    ready = window.columns(READY, "connection", "ends", "sequence")
    number = number_of(ready["connection"], ready["ends"])
    order = order_of(number)
    if not len(order):
        return np.full(len(group), -1)
    number, time, told = number[order], ready["time_ns"][order], ready["sequence"][order]
    more = np.append(0, _ahead(told[:-1], told[1:]))
    # A connection's numbers only grow: what goes back is another's of the same ends.
    begins = (number != np.append(-1, number[:-1])) | (more < 0)
    place = np.cumsum(np.where(begins, CIRCLE, more))
    last = AsOf(number, time).at_or_before(group, read_ns)
    ahead = _ahead(told[last], sequence)
    found = np.minimum(np.searchsorted(place, place[last] + ahead), len(place) - 1)
    known = (last >= 0) & (ahead <= 0) & ~begins[found]
    return np.where(known, time[found], -1)


def _ahead(one: Ints, other: Ints) -> Ints:
    """By how many bytes, less than half a circle, the second place is ahead of the first."""
    return (other - one + CIRCLE // 2) % CIRCLE - CIRCLE // 2
