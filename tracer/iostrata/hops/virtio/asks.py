# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: a guest's trace in, the writes and flushes of its disks out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of, pair_key
from iostrata.hops.hop import Asks
from iostrata.stitch import OP_WRITE, Requests, requests_of, whole
from iostrata.trace import Trace

SECTOR_BYTES: Final = 512


def asks_of(upper: Trace) -> Asks:
    """Writes and flushes: what else a disk does (reads, zeroes) is no call that is recorded.

    Nor is what the driver gave back, to be issued again.
    """
    requests = requests_of(whole(upper))[0]
    told, heard = _told_and_heard(upper, requests)
    asks = Asks(
        identity=requests.key,
        begin_ns=requests.issue_ns,
        end_ns=requests.complete_ns,
        key=pair_key(requests.sector * SECTOR_BYTES, requests.size_bytes),
        group=requests.device_key,
        shared=requests.flush,
        told_ns=told,
        heard_ns=heard,
        offset_bytes=requests.sector * SECTOR_BYTES,
        size_bytes=np.where(requests.flush, 0, requests.size_bytes),
    )
    asked = ~requests.returned & (requests.flush | (requests.operation == OP_WRITE))
    return asks.rows(np.flatnonzero(asked))


def _told_and_heard(upper: Trace, requests: Requests) -> tuple[Ints, Ints]:
    """When the guest began to tell the device of each request, and took its interrupt."""
    added = columns_of(upper.points["virtio_add"], "queue_key", "request_key")
    add = AsOf(added["request_key"], added["time_ns"]).at_or_before(
        requests.key, requests.complete_ns
    )
    when = at(added["time_ns"], add)
    queue, known = at(added["queue_key"], add), when >= requests.issue_ns
    notified = columns_of(upper.points["virtio_notify"], "queue_key", "enter_ns")
    told = AsOf(notified["queue_key"], notified["enter_ns"]).at_or_after(queue, when)
    interrupted = columns_of(upper.points["virtio_interrupt"], "queue_key")
    heard = AsOf(interrupted["queue_key"], interrupted["time_ns"]).at_or_before(
        queue, requests.complete_ns
    )
    return (
        np.where(known, at(notified["enter_ns"], told), -1),
        np.where(known, at(interrupted["time_ns"], heard), -1),
    )
