# SPDX-License-Identifier: Apache-2.0
"""Hops: what was handed to TCP in, where in its connection's stream it ends out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of
from iostrata.hops.connections import number_of
from iostrata.hops.packets import UNSEEN
from iostrata.trace import Trace


def ends_of(
    trace: Trace, point: str, group: Ints, xid: Ints, since_ns: Ints, until_ns: Ints | None = None
) -> Ints:
    """Of each call or command, by its connection and number: where it was handed over first since
    then, as it is told of just behind; be it until then."""
    told = columns_of(trace.points[point], "xid", "connection", "ends", "sequence")
    number = number_of(told["connection"], told["ends"])
    found = np.full(len(group), UNSEEN)
    for one in np.unique(group):
        row, mine = np.flatnonzero(number == one), np.flatnonzero(group == one)
        first = AsOf(told["xid"][row], told["time_ns"][row])
        place = first.at_or_after(xid[mine], since_ns[mine])
        seen = place >= 0
        if until_ns is not None:
            seen &= at(told["time_ns"][row], place) <= until_ns[mine]
        found[mine] = np.where(seen, at(told["sequence"][row], place), UNSEEN)
    return found
