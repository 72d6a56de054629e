# SPDX-License-Identifier: Apache-2.0
"""Hop nfs: what a call spent between client and server."""

from __future__ import annotations

import numpy as np

from iostrata.hops.connections import ports_of
from iostrata.hops.hop import Held, Link
from iostrata.hops.ways import parts_of
from iostrata.stitch import SpanList, Spans, downs_of


def crossing_of(link: Link, held: Held) -> Spans:
    """Network is what the round trip took beside the server's residence: no clock is needed
    for their sum, and only the split into there and back rests on one. What was sent on a
    connection that ended without an answer may have been lost on its way, or taken and dropped by
    the server (svc_drop of net/sunrpc/svc_xprt.c), which then ends the connection."""
    spans, owner = SpanList(), np.arange(len(held.ask))
    row, serve = link.served(held.ask)
    taken = link.clock.to_upper(link.lower.pieces.begin_ns[link.serves.piece[serve]])
    downs, connection = downs_of(link.upper), ports_of(link.asks.group[held.ask])
    there = held.begin_ns, np.minimum(held.first_ns, held.end_ns)
    back = np.maximum(held.last_ns, held.begin_ns), held.end_ns
    # Without a connection nothing is on its way: that is the client's own row.
    of, begin_ns, end_ns = downs.apart_from(connection, *there)
    came = end_ns == there[1][of]
    spans.add(np.where(came, owner[of], -1), "network.there", begin_ns, end_ns)
    spans.add(np.where(came, -1, owner[of]), "unfollowed", begin_ns, end_ns)
    of, begin_ns, end_ns = downs.apart_from(connection, *back)
    broken = np.bincount(of, minlength=len(owner))[of] > 1
    spans.add(np.where(broken, -1, owner[of]), "network.back", begin_ns, end_ns)
    spans.add(np.where(broken, owner[of], -1), "unfollowed", begin_ns, end_ns)
    for rank, since_ns, until_ns in parts_of(link.ways, held.ask, there, back):
        of, begin_ns, end_ns = downs.apart_from(connection, since_ns, until_ns)
        spans.add(owner[of], rank, begin_ns, end_ns)
    spans.add(row, "svc.queue", link.begin_ns[serve], np.minimum(taken, held.end_ns[row]))
    return spans.collect()
