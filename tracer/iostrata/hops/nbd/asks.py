# SPDX-License-Identifier: Apache-2.0
"""Hop nbd: a client's trace in, what its network block devices were asked for out."""

from __future__ import annotations

import numpy as np

from iostrata.hops.blocks import asks_by_place
from iostrata.hops.hop import Asks
from iostrata.stitch import last_hit, requests_of, whole
from iostrata.trace import Trace


def asks_of(upper: Trace, reads: bool = False) -> Asks:
    """Those that the driver was seen to send, and to have an answer to.

    It has one since all of that was in its socket, if that is told: what reads, with the last of
    its data. ``reads``: with those that read.
    """
    window = whole(upper)
    requests = requests_of(window)[0]
    sent = last_hit(window, "nbd_payload_sent", requests)
    points = ("nbd_header_received", "nbd_payload_received")
    answered = np.maximum(*(last_hit(window, point, requests, sent) for point in points))
    return asks_by_place(requests, sent, answered, (sent >= 0) & (answered >= 0), reads)
