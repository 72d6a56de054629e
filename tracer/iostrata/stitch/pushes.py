# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: sleeps in syncs of XFS in, which were for the push of committed items out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Containing, Ints, at
from iostrata.stitch.spans import SpanList
from iostrata.stitch.syncs import Syncs
from iostrata.stitch.wakeup import CAUSE, Sleeps
from iostrata.stitch.window import Window


def asleep_for_log(window: Window, syncs: Syncs, sleeps: Sleeps, owner: Ints) -> Ints:
    """Sleeps (rows) inside a sync of XFS before its thread wrote or awaited a log buffer.

    ``owner``: of each sleep its piece, -1: it is of none, and none that is told here.

    The kernel has no point where a thread waits for the push of the committed
    item list, but nothing else that a thread of the kernel ends stands between the sync,
    with its data written, and the log write.
    """
    logged = [window.columns(p, "tid") for p in ("xlog_iclog_sync", "xlog_iclog_wait_on")]
    tid = np.concatenate([columns["tid"] for columns in logged])
    time = np.concatenate([columns["time_ns"] for columns in logged])
    if not len(tid):
        return np.zeros(0, np.int64)
    mine = np.flatnonzero(sleeps.asleep & (owner >= 0))
    sleeper = sleeps.tid[mine]
    following = at(time, AsOf(tid, time).at_or_after(sleeper, sleeps.on_ns[mine]))
    during = Containing(syncs.tid, syncs.begin_ns, syncs.end_ns)
    inside = during.find(sleeper, sleeps.off_ns[mine])
    same = (inside >= 0) & (at(syncs.piece, inside) == owner[mine])
    before: Ints = mine[same & (following >= 0) & (following <= at(syncs.end_ns, inside))]
    return before


def pushes(spans: SpanList, sleeps: Sleeps, owner: Ints, rows: Ints) -> None:
    """Those sleeps for a log during which nothing that their owner waited for was complete."""
    if not len(rows):
        return
    sleeps, owner, found = sleeps.rows(rows), owner[rows], spans.collect()
    cause = found.where(CAUSE[found.rank])
    last = AsOf(cause.owner, cause.end_ns).at_or_before(owner, sleeps.wake_ns)
    inside = at(cause.end_ns, last) >= sleeps.off_ns
    spans.add(np.where(inside, -1, owner), "journal.start", sleeps.off_ns, sleeps.wake_ns)
