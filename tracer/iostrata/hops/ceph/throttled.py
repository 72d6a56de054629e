# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: an OSD's machine in, the operations out that it let wait before it read them.

Of a client, a messenger takes no more than so many at once (osd_client_message_cap and other
throttles): it looks at what came, and sets a timer for when it looks again. Nothing else has it
read an operation as a timer lets it go.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iostrata.columns import AsOf, at
from iostrata.hops.hop import Link
from iostrata.model import NotObserved
from iostrata.stitch import OSD_OP, messages_of, whole
from iostrata.trace.layout import WAKE_TIMER


def let_wait(link: Link) -> Iterator[NotObserved]:
    """A line for each OSD that did."""
    window = whole(link.lower.trace)
    read = messages_of(window, "osd_message", OSD_OP)
    woken = window.columns("sched_resume", "subject_tid", "state", "waker_context")
    slept = np.flatnonzero(woken["state"] != 0)
    last = AsOf(woken["subject_tid"][slept], woken["time_ns"][slept]).at_or_before(
        read["tid"], read["time_ns"]
    )
    timed = at(woken["waker_context"][slept], last) == WAKE_TIMER
    for number, count in zip(
        *np.unique(read["osd_number"][timed], return_counts=True), strict=True
    ):
        operations = "1 operation was" if count == 1 else f"{count} operations were"
        reason = (
            f"{operations} read when a timer was over, as its messenger takes no more than so many "
            "at once (osd_client_message_cap, or another throttle)"
        )
        yield NotObserved(f"osd.{number}" if number >= 0 else "an OSD", reason, "network.there")
