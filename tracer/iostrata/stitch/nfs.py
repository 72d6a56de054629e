# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: the hop from an NFS client to its server.

Its wire key is the xid, which client and server print alike; it is unique to a
connection until it is used again, which time settles.
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import columns_of
from iostrata.stitch.calls import Pieces
from iostrata.stitch.hop import Asks, Serves
from iostrata.stitch.lift import Held, Link
from iostrata.stitch.rpc import calls_of
from iostrata.stitch.spans import NO_SPANS, SpanList, Spans
from iostrata.stitch.window import Window, whole
from iostrata.trace.layout import NFS_COMMIT
from iostrata.trace.read import Trace


class Nfs:
    """An RPC call: sent by the client, served by a thread of the server."""

    name = "nfs"
    floor = "svc"

    def asks(self, upper: Trace) -> Asks:
        calls = calls_of(whole(upper))
        return Asks(
            identity=calls.key,
            begin_ns=calls.send_ns,
            end_ns=calls.reply_ns,
            key=calls.xid,
            group=calls.connection,
            shared=np.zeros(len(calls), np.bool_),
            told_ns=calls.send_ns,
            heard_ns=calls.reply_ns,
        )

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        """A piece is a thread's own time with a call; the serve begins as the call is there."""
        calls = columns_of(
            lower.points["svc_call"], "tid", "enqueue_ns", "dequeue_ns", "receive_ns", "xid",
            "connection", "operation", "offset_bytes", "size_bytes",
        )  # fmt: skip
        count = len(calls["tid"])
        none = np.zeros(count, np.int64)
        taken = np.where(calls["dequeue_ns"] > 0, calls["dequeue_ns"], calls["receive_ns"])
        # Enqueued by the bytes before it, while the thread was still at another call.
        queued = np.where(calls["enqueue_ns"] > 0, calls["enqueue_ns"], taken)
        pieces = Pieces(np.arange(count), calls["tid"], taken, calls["time_ns"], none, none)
        serves = Serves(
            begin_ns=np.minimum(queued, taken),
            end_ns=calls["time_ns"],
            key=calls["xid"],
            group=calls["connection"],
            shared=np.zeros(count, np.bool_),
            piece=np.arange(count),
            agent=none,
            flush=calls["operation"] == NFS_COMMIT,
            offset_bytes=calls["offset_bytes"],
            size_bytes=calls["size_bytes"],
        )
        return serves, pieces

    def crossing(self, link: Link, held: Held) -> Spans:
        """Network is what the round trip took beside the server's residence: no clock is needed
        for their sum, and only the split into there and back rests on one."""
        spans, owner = SpanList(), np.arange(len(held.ask))
        row, serve = link.served(held.ask)
        taken = link.clock.to_upper(link.lower.pieces.begin_ns[link.serves.piece[serve]])
        spans.add(owner, "network.there", held.begin_ns, np.minimum(held.first_ns, held.end_ns))
        spans.add(row, "svc.queue", link.begin_ns[serve], np.minimum(taken, held.end_ns[row]))
        spans.add(owner, "network.back", np.maximum(held.last_ns, held.begin_ns), held.end_ns)
        return spans.collect()

    def context(self, link: Link, window: Window) -> Spans:
        """The server does not keep the client from running."""
        return NO_SPANS
