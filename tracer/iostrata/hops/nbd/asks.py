# SPDX-License-Identifier: Apache-2.0
"""Hop nbd: a client's trace in, the writes and flushes of its network block devices out."""

from __future__ import annotations

from iostrata.hops.blocks import asks_by_place
from iostrata.hops.hop import Asks
from iostrata.stitch import last_hit, requests_of, whole
from iostrata.trace import Trace


def asks_of(upper: Trace) -> Asks:
    """Those that the driver was seen to send, and to have an answer to."""
    window = whole(upper)
    requests = requests_of(window)[0]
    sent = last_hit(window, "nbd_payload_sent", requests)
    answered = last_hit(window, "nbd_header_received", requests)
    return asks_by_place(requests, sent, answered, (sent >= 0) & (answered >= 0))
