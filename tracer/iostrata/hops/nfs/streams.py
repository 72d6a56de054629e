# SPDX-License-Identifier: Apache-2.0
"""Hop nfs: calls and who served them in, where in TCP's streams they and their replies end out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import columns_of
from iostrata.hops.hop import Link
from iostrata.hops.nfs.asks import calls_of
from iostrata.hops.packets import UNSEEN
from iostrata.hops.route import Streams
from iostrata.hops.streams import ends_of


def streams_of(link: Link) -> Streams | None:
    """None: the client's recorder was not asked to tell (``--packets``)."""
    if not len(link.upper.points["rpc_stream"]):
        return None
    asks, serves, server = link.asks, link.serves, link.lower.trace
    # As the wire has them: a key may say more.
    xid = calls_of(link.upper, link.hop.reads).xid
    served = columns_of(server.points["svc_call"], "xid")["xid"][serves.piece]
    reply_end = np.full(len(asks), UNSEEN)
    reply_end[link.pairs.ask] = ends_of(server, "svc_stream", serves.group, served, serves.end_ns)[
        link.pairs.serve
    ]
    return Streams(ends_of(link.upper, "rpc_stream", asks.group, xid, asks.begin_ns), reply_end)
