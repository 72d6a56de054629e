# SPDX-License-Identifier: Apache-2.0
"""Hop nfs: a client's trace in, the calls that it made out."""

from __future__ import annotations

import numpy as np

from iostrata.hops.connections import number_of
from iostrata.hops.hop import Asks
from iostrata.stitch import Calls, rpc_calls_of, whole
from iostrata.trace import Trace
from iostrata.trace.layout import NFS_READ


def calls_of(upper: Trace, reads: bool) -> Calls:
    """Those that the asks are, row by row. ``reads``: with what reads."""
    calls = rpc_calls_of(whole(upper))
    # Of what is read for a write, its server's recording need not tell.
    return calls if reads else calls.rows(np.flatnonzero(calls.operation != NFS_READ))


def asks_of(upper: Trace, reads: bool) -> Asks:
    calls = calls_of(upper, reads)
    return Asks(
        identity=calls.key,
        begin_ns=calls.send_ns,
        end_ns=calls.reply_ns,
        key=calls.xid,
        group=number_of(calls.connection, calls.ends),
        shared=np.zeros(len(calls), np.bool_),
        told_ns=calls.send_ns,
        heard_ns=calls.reply_ns,
        offset_bytes=np.zeros(len(calls), np.int64),
        size_bytes=np.zeros(len(calls), np.int64),
    )
