# SPDX-License-Identifier: Apache-2.0
"""Hop iscsi: an initiator's trace in, the commands that it sent out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, at, one_of
from iostrata.hops.blocks import SECTOR_BYTES
from iostrata.hops.connections import number_of
from iostrata.hops.hop import Asks
from iostrata.hops.targets import places_of
from iostrata.hops.translation import NO_KEY
from iostrata.stitch import OP_READ, last_hit, requests_of, whole
from iostrata.trace import Trace


def asks_of(upper: Trace, reads: bool = False) -> Asks:
    """Each request of disks of which any was seen to be sent; ``reads``: with those that read.

    One that was not seen itself went by the connection that the disk's others did. What was given
    back without an answer never had one: its connection ended.
    """
    window = whole(upper)
    requests = requests_of(window)[0]
    sent = window.columns("iscsi_sent", "request_key", "dev", "itt", "connection", "ends")
    reading = requests.operation == OP_READ
    rows = np.flatnonzero(one_of(requests.device_key, sent["dev"]) & (reads | ~reading))
    key, device = requests.key[rows], requests.device_key[rows]
    issue, complete = requests.issue_ns[rows], requests.complete_ns[rows]
    last = AsOf(sent["request_key"], sent["time_ns"]).at_or_before(key, complete)
    seen = at(sent["time_ns"], last) >= issue
    by_disk = AsOf(sent["dev"], sent["time_ns"])
    near = by_disk.at_or_before(device, complete)
    near = np.where(near >= 0, near, by_disk.at_or_after(device, complete))
    near = np.where(seen, last, near)
    answered = last_hit(window, "iscsi_answered", requests)[rows]
    # The driver comes there again, with nothing of the command left, as it is asked for more data.
    first = AsOf(sent["request_key"], sent["time_ns"]).at_or_after(key, issue)
    told = np.where(seen, at(sent["time_ns"], first), issue)
    flush = requests.flush[rows]
    unheard = np.where(requests.returned[rows], -1, complete)
    return Asks(
        identity=key,
        begin_ns=issue,
        end_ns=complete,
        key=np.where(seen, at(sent["itt"], last), NO_KEY),
        group=number_of(at(sent["connection"], near), at(sent["ends"], near)),
        shared=np.zeros(len(rows), np.bool_),
        told_ns=told,
        heard_ns=np.where(answered >= told, answered, unheard),
        offset_bytes=places_of(requests.sector[rows] * SECTOR_BYTES, reading[rows]),
        size_bytes=np.where(flush, 0, requests.size_bytes[rows]),
    )
