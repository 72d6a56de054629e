# SPDX-License-Identifier: Apache-2.0
"""Hop fuse: a machine's trace in, what its file systems asked of their daemons out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import Ints
from iostrata.hops.hop import Asks
from iostrata.stitch import Calls, fuse_calls_of, whole
from iostrata.trace import Trace


def asks_of(upper: Trace) -> Asks:
    calls = fuse_calls_of(whole(upper))
    return asks_by(calls, calls.key)


def asks_by(calls: Calls, key: Ints) -> Asks:
    """``key``: what the daemon knows each call by."""
    none = np.zeros(len(calls), np.int64)
    return Asks(
        identity=calls.key,
        begin_ns=calls.send_ns,
        end_ns=calls.reply_ns,
        key=key,
        group=calls.device_key,
        shared=np.zeros(len(calls), np.bool_),
        told_ns=calls.send_ns,
        heard_ns=calls.reply_ns,
        offset_bytes=none,
        size_bytes=none,
    )
