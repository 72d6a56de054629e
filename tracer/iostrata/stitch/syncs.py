# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: syncs of file systems in, until when the thread of each was at it out.

xfs and btrfs have no point at the return, nor is that of a disk's own told. A call ends with its
sync; what waits for an asynchronous request does so long behind that, as it may have no CPU to
collect it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, AsOf, Ints, at, pair_key
from iostrata.stitch.calls import ENTERED
from iostrata.stitch.completions import completions
from iostrata.stitch.wakeup import TASK_NOLOAD, Sleeps, sleeps_of
from iostrata.stitch.window import Window

SYNCS: Final = (
    "ext4_sync_file", "nfs_sync_file", "xfs_file_fsync", "btrfs_sync_file", "blkdev_fsync",
)  # fmt: skip
# Those with a point at the return.
WHOLE: Final = SYNCS[:2]
# What a thread says only when it is at something else.
NEXT: Final = ("io_uring_work", "io_uring_submit_req", "io_uring_queue_async_work")


@dataclass(frozen=True, eq=False)
class Syncs:
    """A file system's syncs: thread, begin, end, device and the piece that each is for.

    ``worker``: it runs on behalf of an asynchronous request. ``transaction``: the
    jbd2 transactions at entry and return, 0 where there is none.
    """

    tid: Ints
    begin_ns: Ints
    end_ns: Ints
    device_key: Ints
    inode: Ints
    piece: Ints
    worker: Ints
    enter_transaction: Ints
    exit_transaction: Ints


def at_it_until(window: Window, syncs: Syncs, rows: Ints) -> Ints:
    """Of syncs (rows) for asynchronous requests, until when the thread was at each: it lets the
    submitter go, behind all that it waited for, or anything tells that it is at it no more.

    At the latest that is the end of the piece.
    """
    tid, begin, piece = syncs.tid[rows], syncs.begin_ns[rows], syncs.worker[rows]
    pieces, sleeps = window.pieces, sleeps_of(window)
    key = pieces.request_key[piece]
    end = np.minimum(pieces.end_ns[piece], _at_another(window, syncs, tid, begin, key))
    end = np.minimum(end, _complete(window, key, begin))
    end = np.minimum(end, _call_over(window, tid, begin))
    end = np.minimum(end, _asleep_else(sleeps, tid, begin))
    others = np.flatnonzero(tid != pieces.tid[piece])
    end[others] = _left(window, sleeps, tid[others], begin[others], end[others])
    since = _last_waited(window, sleeps, tid, begin, end)
    itself = np.flatnonzero(sleeps.asleep & ~sleeps.interrupted)
    waking = pair_key(sleeps.waker[itself], sleeps.tid[itself])
    freed = _first(waking, sleeps.wake_ns[itself], pair_key(tid, pieces.tid[piece]), since)
    return np.minimum(end, freed)


def _first(keys: Ints, times: Ints, key: Ints, since_ns: Ints) -> Ints:
    """The first time that each key has behind a time; there is none: never."""
    found = AsOf(keys, times).at_or_after(key, since_ns + 1)
    return np.where(found >= 0, at(times, found), NEVER)


def _at_another(window: Window, syncs: Syncs, tid: Ints, begin_ns: Ints, key: Ints) -> Ints:
    """When threads are next told to be at anything but that request. io_uring's workers may say
    that they are at it only when they first sleep in its sync."""
    end = _first(syncs.tid, syncs.begin_ns, tid, begin_ns)
    for point in NEXT:
        told = window.columns(point, "tid", "request_key")
        at_or_after = AsOf(told["tid"], told["time_ns"]).at_or_after
        found = at_or_after(tid, begin_ns + 1)
        own = np.flatnonzero((found >= 0) & (at(told["request_key"], found) == key))
        found[own] = at_or_after(tid[own], told["time_ns"][found[own]] + 1)
        end = np.where(found >= 0, np.minimum(end, at(told["time_ns"], found)), end)
    return end


def _complete(window: Window, key: Ints, begin_ns: Ints) -> Ints:
    done = completions(window, "request_key")
    blocks = window.columns("aio_complete", "iocb_key")
    return np.minimum(
        _first(done["request_key"], done["time_ns"], key, begin_ns),
        _first(blocks["iocb_key"], blocks["time_ns"], key, begin_ns),
    )


def _call_over(window: Window, tid: Ints, begin_ns: Ints) -> Ints:
    """Of submitters that sync themselves, the return of the call that they do so in."""
    end = np.full(len(tid), NEVER)
    for point in ENTERED:
        calls = window.columns(point, "tid", "enter_ns")
        found = AsOf(calls["tid"], calls["time_ns"]).at_or_after(tid, begin_ns)
        inside = (found >= 0) & (at(calls["enter_ns"], found) <= begin_ns)
        end = np.where(inside, np.minimum(end, at(calls["time_ns"], found)), end)
    return end


def _asleep_else(sleeps: Sleeps, tid: Ints, begin_ns: Ints) -> Ints:
    """When threads went to sleep with nothing to do, or for what a signal may end, as no sync
    does; or, behind their first sleep in the sync, in another work."""
    gone = np.flatnonzero(_no_sync_sleeps_so(sleeps))
    end = _first(sleeps.tid[gone], sleeps.off_ns[gone], tid, begin_ns)
    asleep = np.flatnonzero(sleeps.asleep)
    first = _first(sleeps.tid[asleep], sleeps.off_ns[asleep], tid, begin_ns)
    other = np.flatnonzero(sleeps.other_work > 0)
    known = np.minimum(first, NEVER - 1)
    return np.minimum(end, _first(sleeps.tid[other], sleeps.off_ns[other], tid, known))


def _left(window: Window, sleeps: Sleeps, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Ints:
    """When workers left the CPU for the last time before ends by which they had completed their
    requests. Of one that does not run again, no sleep is told, but its run may be."""
    last = AsOf(sleeps.tid, sleeps.on_ns).at_or_before(tid, end_ns)
    on = np.maximum(at(sleeps.on_ns, last), begin_ns)
    # A thread of the kernel is a process by itself; io_uring's workers are none.
    runs = window.columns("sched_ran", "tgid", "end_ns")
    off = np.minimum(
        _first(sleeps.tid, sleeps.off_ns, tid, on), _first(runs["tgid"], runs["end_ns"], tid, on)
    )
    return np.minimum(end_ns, off)


def _last_waited(window: Window, sleeps: Sleeps, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Ints:
    """Until when threads are known to have been in their sync: they were back from a wait, or had
    to do with the log."""
    inside = np.flatnonzero(sleeps.asleep & ~_no_sync_sleeps_so(sleeps))
    known = [(sleeps.tid[inside], sleeps.off_ns[inside], sleeps.on_ns[inside])]
    for point in ("xlog_iclog_sync", "xlog_iclog_wait_on"):
        events = window.columns(point, "tid")
        known.append((events["tid"], events["time_ns"], events["time_ns"]))
    who, since, until = (np.concatenate(columns) for columns in zip(*known, strict=True))
    last = AsOf(who, until).at_or_before(tid, end_ns)
    return np.where(at(since, last) >= begin_ns, at(until, last), begin_ns)


def _no_sync_sleeps_so(sleeps: Sleeps) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = sleeps.interruptible | (
        sleeps.asleep & (sleeps.state & TASK_NOLOAD > 0)
    )
    return found
