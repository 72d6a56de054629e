# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: bios of stacked devices in, the kernel threads that handed them on below out.

Device mapper and md may hand a bio on in a thread of their own, and through several: dm-crypt's
kcryptd encrypts it and lets dmcrypt_write go, which queues what came of it on the device below.
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at, joined
from iostrata.stitch.bios import DEPTH, Bios
from iostrata.stitch.serving import Service
from iostrata.stitch.wakers import Wakers
from iostrata.stitch.wakeup import Sleeps
from iostrata.trace.layout import WAKE_INTERRUPT


def handers(bios: Bios, sleeps: Sleeps, wakers: Wakers, owner: Ints) -> Service:
    """Who queued below what came of a bio, who had let that one go, and so on. ``owner``: of each.

    Each is at it from when it was let go, or when the bio above was queued, until it let the next
    one go.
    """
    found = [Service(*[np.zeros(0, np.int64)] * 4)]
    woken = np.flatnonzero(sleeps.asleep)
    last = AsOf(sleeps.tid[woken], sleeps.on_ns[woken])
    bio = np.flatnonzero((bios.parent >= 0) & (owner >= 0))
    since, asked_by = bios.begin_ns[bios.parent[bio]], bios.tid[bios.parent[bio]]
    tid, until = bios.tid[bio], bios.begin_ns[bio]
    for _ in range(DEPTH if len(bio) else 0):
        on = np.flatnonzero((tid != asked_by) & (until > since) & wakers.are_helpers(tid, until))
        bio, since, asked_by, tid, until = (c[on] for c in (bio, since, asked_by, tid, until))
        sleep = at(woken, last.at_or_before(tid, until))
        wake = at(sleeps.wake_ns, sleep)
        found.append(Service(owner[bio], tid, np.maximum(wake, since), until))
        itself = at(sleeps.context, sleep) != WAKE_INTERRUPT
        tid, until = np.where(itself, at(sleeps.waker, sleep), -1), wake
    return Service(**joined(found))
