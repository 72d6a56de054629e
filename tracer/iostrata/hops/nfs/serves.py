# SPDX-License-Identifier: Apache-2.0
"""Hop nfs: a server's trace in, the calls that it served out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import columns_of
from iostrata.hops.connections import number_of
from iostrata.hops.hop import Serves
from iostrata.stitch import Pieces
from iostrata.trace import Trace
from iostrata.trace.layout import NFS_COMMIT


def serves_of(lower: Trace) -> tuple[Serves, Pieces]:
    """A piece is a thread's own time with a call; the serve begins as the call is there."""
    later = tuple({"ends"} & set(lower.points["svc_call"].fields))
    calls = columns_of(
        lower.points["svc_call"], "tid", "enqueue_ns", "dequeue_ns", "receive_ns", "xid",
        "connection", "operation", "offset_bytes", "size_bytes",
        *later,
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
        group=number_of(calls["connection"], calls.get("ends", none)),
        shared=np.zeros(count, np.bool_),
        piece=np.arange(count),
        agent=none,
        flush=calls["operation"] == NFS_COMMIT,
        offset_bytes=calls["offset_bytes"],
        size_bytes=calls["size_bytes"],
    )
    return serves, pieces
