# SPDX-License-Identifier: Apache-2.0
"""Hop nfs: calls and who served them in, where in TCP's streams they and their replies end out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of
from iostrata.hops.connections import number_of
from iostrata.hops.hop import Link
from iostrata.hops.nfs.asks import calls_of
from iostrata.hops.packets import UNSEEN
from iostrata.hops.route import Streams
from iostrata.trace import Trace


def streams_of(link: Link) -> Streams | None:
    """None: the client's recorder was not asked to tell (``--packets``)."""
    if not len(link.upper.points["rpc_stream"]):
        return None
    asks, serves, server = link.asks, link.serves, link.lower.trace
    # As the wire has them: a key may say more.
    xid = calls_of(link.upper, link.hop.reads).xid
    served = columns_of(server.points["svc_call"], "xid")["xid"][serves.piece]
    reply_end = np.full(len(asks), UNSEEN)
    reply_end[link.pairs.ask] = _ends(server, "svc_stream", serves.group, served, serves.end_ns)[
        link.pairs.serve
    ]
    return Streams(_ends(link.upper, "rpc_stream", asks.group, xid, asks.begin_ns), reply_end)


def _ends(trace: Trace, point: str, group: Ints, xid: Ints, since_ns: Ints) -> Ints:
    """Of each call: where it was handed over first since then, as it is told of just behind."""
    told = columns_of(trace.points[point], "xid", "connection", "ends", "sequence")
    number = number_of(told["connection"], told["ends"])
    found = np.full(len(group), UNSEEN)
    for one in np.unique(group):
        row, mine = np.flatnonzero(number == one), np.flatnonzero(group == one)
        first = AsOf(told["xid"][row], told["time_ns"][row])
        place = first.at_or_after(xid[mine], since_ns[mine])
        found[mine] = np.where(place >= 0, at(told["sequence"][row], place), UNSEEN)
    return found
