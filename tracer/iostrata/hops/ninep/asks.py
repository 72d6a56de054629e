# SPDX-License-Identifier: Apache-2.0
"""Hop ninep: a guest's trace in, what it asked a 9p server to write or to make durable out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import pair_key
from iostrata.hops.hop import Asks
from iostrata.hops.ninep.files import file_of
from iostrata.hops.virtio.asks import told_and_heard
from iostrata.stitch import NINEP_REQUEST, ninep_calls_of, whole
from iostrata.trace import Trace

# Of enum p9_msg_t (net/9p/9p.h).
TFSYNC: Final = 50
TWRITE: Final = 118
NO_PLACE: Final = -1
"""The offset of what makes durable, as a system call has it."""


def asks_of(upper: Trace) -> Asks:
    """Of known files, with success; what else is asked is no call that the host's kernel sees."""
    window = whole(upper)
    calls, made = ninep_calls_of(window), window.columns("ninep_request", "path", "error")
    kind, none = calls.operation - NINEP_REQUEST, np.zeros(len(calls), np.int64)
    offset = np.where(kind == TWRITE, calls.offset_bytes, NO_PLACE)
    told, heard = told_and_heard(upper, calls.key, calls.send_ns, calls.reply_ns)
    asks = Asks(
        identity=calls.key,
        begin_ns=calls.send_ns,
        end_ns=calls.reply_ns,
        key=pair_key(offset, calls.size_bytes),
        group=file_of(made["path"], calls.device_key),
        shared=none > 0,
        told_ns=told,
        heard_ns=heard,
        offset_bytes=offset,
        size_bytes=calls.size_bytes,
    )
    seen = ((kind == TWRITE) | (kind == TFSYNC)) & (made["path"] != 0) & (made["error"] == 0)
    return asks.rows(np.flatnonzero(seen))
