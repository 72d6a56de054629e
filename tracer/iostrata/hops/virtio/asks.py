# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: a guest's trace in, what its disks were asked for out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of, one_of
from iostrata.hops.blocks import asks_by_place
from iostrata.hops.hop import Asks
from iostrata.stitch import requests_of, whole
from iostrata.trace import Trace


def asks_of(upper: Trace, reads: bool = False) -> Asks:
    """Without what the driver gave back, to be issued again. ``reads``: with those that read.

    Nor of loop devices: those have a file of the guest's own.
    """
    requests = requests_of(whole(upper))[0]
    known = told_and_heard(upper, requests.key, requests.issue_ns, requests.complete_ns)
    loops = [key for key, block in upper.facts.blocks.items() if block.backing]
    seen = ~requests.returned & ~one_of(requests.device_key, loops)
    return asks_by_place(requests, *known, seen, reads)


def told_and_heard(upper: Trace, key: Ints, begin_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """When the guest began to tell the device of each request, and took its interrupt.

    ``key``: as virtio_add has it.
    """
    added = columns_of(upper.points["virtio_add"], "queue_key", "request_key")
    add = AsOf(added["request_key"], added["time_ns"]).at_or_before(key, end_ns)
    when = at(added["time_ns"], add)
    queue, known = at(added["queue_key"], add), when >= begin_ns
    notified = columns_of(upper.points["virtio_notify"], "queue_key", "enter_ns")
    told = AsOf(notified["queue_key"], notified["enter_ns"]).at_or_after(queue, when)
    interrupted = columns_of(upper.points["virtio_interrupt"], "queue_key")
    heard = AsOf(interrupted["queue_key"], interrupted["time_ns"]).at_or_before(queue, end_ns)
    return (
        np.where(known, at(notified["enter_ns"], told), -1),
        np.where(known, at(interrupted["time_ns"], heard), -1),
    )
