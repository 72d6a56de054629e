# SPDX-License-Identifier: Apache-2.0
"""Hop iscsi-tgt: an initiator's trace in, what its disks were asked for out."""

from __future__ import annotations

from iostrata.hops.blocks import asks_by_place
from iostrata.hops.hop import Asks
from iostrata.stitch import last_hit, requests_of, whole
from iostrata.trace import Trace


def asks_of(upper: Trace, reads: bool = False) -> Asks:
    """Those that were seen to be sent, and answered. ``reads``: with those that read."""
    window = whole(upper)
    requests = requests_of(window)[0]
    sent = last_hit(window, "iscsi_sent", requests)
    answered = last_hit(window, "iscsi_answered", requests)
    return asks_by_place(requests, sent, answered, (sent >= 0) & (answered >= sent), reads)
