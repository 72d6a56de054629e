# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: asynchronous requests in, which worker of the kernel's completed each out.

A worker does so for a file of an overlay, when the file below is done with
(backing_aio_queue_completion of fs/backing-file.c), and for what a file system allocated. Nothing
tells of it but that it lets go who waits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.stitch.completions import completions
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window, whole

RESULT: Final = ("tid", "time_ns", "enter_ns")


def completed_by(
    window: Window,
    sleeps: Sleeps,
    requests: Ints,
    collector: Ints,
    enter_ns: Ints,
    since_ns: Ints,
    until_ns: Ints,
) -> tuple[Ints, Ints]:
    """The workers (threads) that completed requests behind all that is known of them
    (``since_ns``), and when they had; -1 and ``since_ns``: none is known to have.

    ``collector``: the thread that took each result, in a call that began at ``enter_ns``. If it
    slept there, and took no other, it did so until that one was complete: who takes several may
    have waited for all of them. ``until_ns``: when it took it; io_uring's may sleep on behind that,
    until there are as many as it waits for.
    """
    end = window.pieces.end_ns[requests]
    asleep = np.flatnonzero(sleeps.asleep)
    last = AsOf(sleeps.tid[asleep], sleeps.wake_ns[asleep]).at_or_before(collector, until_ns - 1)
    wake, waker = at(sleeps.wake_ns[asleep], last), at(sleeps.waker[asleep], last)
    inside = (last >= 0) & (wake >= np.maximum(enter_ns, since_ns)) & (waker > 0)
    inside &= whole(window.trace).once(kinds_of).pool_of(waker, wake) >= 0
    row = np.flatnonzero(inside)
    if len(row):
        row = row[_alone(window, sleeps, collector[row], wake[row], until_ns[row], end[row])]
    worker, let_go_ns = np.full(len(requests), -1), since_ns.copy()
    worker[row], let_go_ns[row] = waker[row], wake[row]
    return worker, let_go_ns


def _alone(
    window: Window, sleeps: Sleeps, collector: Ints, wake_ns: Ints, until_ns: Ints, end_ns: Ints
) -> Ints:
    """Rows of requests whose result was all that a thread took behind a sleep, before it slept
    again in that call."""
    uring, libaio = completions(window, "tid"), window.columns("aio_complete", "tid", "enter_ns")
    told = [{**uring, "enter_ns": uring["time_ns"]}, libaio]
    tid, time, enter = (np.concatenate([one[name] for one in told]) for name in RESULT)
    results = AsOf(tid, time)
    first = results.at_or_after(collector, wake_ns)
    last = results.at_or_before(collector, until_ns)
    following = results.at_or_after(collector, until_ns + 1)
    slept = AsOf(sleeps.tid, sleeps.off_ns).at_or_after(collector, until_ns)
    again_ns = np.where(slept >= 0, np.minimum(at(sleeps.off_ns, slept), end_ns), end_ns)
    # libaio's of one call are told one after the other, as it returns.
    more = (at(time, following) <= again_ns) | (at(enter, following) == at(enter, last))
    more &= following >= 0
    return np.flatnonzero((first >= 0) & (first == last) & ~more)
