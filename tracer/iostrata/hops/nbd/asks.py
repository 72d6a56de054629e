# SPDX-License-Identifier: Apache-2.0
"""Hop nbd: a client's trace in, the writes and flushes of its network block devices out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of, pair_key
from iostrata.hops.hop import Asks
from iostrata.stitch import OP_WRITE, Requests, requests_of, whole
from iostrata.trace import Trace

SECTOR_BYTES: Final = 512


def asks_of(upper: Trace) -> Asks:
    """Those that the driver was seen to send, and to have an answer to."""
    requests = requests_of(whole(upper))[0]
    sent = _when(upper, "nbd_payload_sent", requests)
    answered = _when(upper, "nbd_header_received", requests)
    asks = Asks(
        identity=requests.key,
        begin_ns=requests.issue_ns,
        end_ns=requests.complete_ns,
        key=pair_key(requests.sector * SECTOR_BYTES, requests.size_bytes),
        group=requests.device_key,
        shared=requests.flush,
        told_ns=sent,
        heard_ns=answered,
        offset_bytes=requests.sector * SECTOR_BYTES,
        size_bytes=np.where(requests.flush, 0, requests.size_bytes),
    )
    writes = requests.flush | (requests.operation == OP_WRITE)
    return asks.rows(np.flatnonzero(writes & (sent >= 0) & (answered >= 0)))


def _when(upper: Trace, point: str, requests: Requests) -> Ints:
    """When a request was last at a point of its driver; -1: it was not seen there."""
    hits = columns_of(upper.points[point], "request_key")
    found = AsOf(hits["request_key"], hits["time_ns"]).at_or_before(
        requests.key, requests.complete_ns
    )
    time = at(hits["time_ns"], found)
    return np.where(time >= requests.issue_ns, time, -1)
