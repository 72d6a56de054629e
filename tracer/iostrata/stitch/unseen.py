# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: syncs by workers in, of what time in them nobody knows what the worker did out.

Who left the CPU is told of when it runs again. One that does not any more, before the recording
ends or at all, or for which that is not told, may be done with its sync or sleep in it; all that is
known is when it gave the last sign, and when its CPU was another's. Some kernels do not show every
switch: that there was one more is told as the thread next leaves its CPU.
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import NEVER, AsOf, Ints, at, changes, distinct, one_of, order_of, overlapping
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.syncs import NEXT, SYNCS, Syncs
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window

SIGNS = (*SYNCS, *NEXT, "xlog_iclog_sync", "xlog_iclog_wait_on", "block_bio_queue", "aio_complete")


def unseen(window: Window, syncs: Syncs, sleeps: Sleeps) -> Spans:
    """Of whatever no layer claims meanwhile nothing is known."""
    spans = SpanList()
    rows = np.flatnonzero(syncs.worker >= 0)
    rows = rows[syncs.tid[rows] != window.pieces.tid[syncs.worker[rows]]]
    if len(rows) and len(sleeps):
        parts = (
            _unseen(window, sleeps, syncs.tid[rows], syncs.begin_ns[rows]),
            hidden(window, sleeps),
        )
        tid, begin, until = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        row, some = overlapping(
            syncs.tid[rows], syncs.begin_ns[rows], syncs.end_ns[rows], tid, begin, until
        )
        sync = rows[row]
        begin = np.maximum(begin[some], syncs.begin_ns[sync])
        until = np.minimum(until[some], syncs.end_ns[sync])
        spans.add(syncs.piece[sync], "blocked", begin, until)
    return spans.collect()


def _unseen(window: Window, sleeps: Sleeps, tid: Ints, begin_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Which threads nobody saw, from when on and until when, of those that began something."""
    workers = distinct(tid)
    who, time = _signs(window, sleeps, workers)
    signs = AsOf(who, time)
    own = np.flatnonzero(one_of(sleeps.tid, workers))
    off = AsOf(sleeps.tid[own], sleeps.off_ns[own])
    another = np.concatenate([_of_another(window, sleeps)[own], np.full(len(tid), NEVER)])
    tid = np.concatenate([sleeps.tid[own], tid])
    on = np.concatenate([sleeps.on_ns[own], begin_ns])
    next_off = off.at_or_after(tid, on)
    left = np.where(next_off >= 0, at(sleeps.off_ns[own], next_off), NEVER)
    # A thread of the kernel is a process by itself; io_uring's workers are none.
    runs = window.columns("sched_ran", "tgid", "end_ns")
    ran = AsOf(runs["tgid"], runs["end_ns"]).at_or_after(tid, on + 1)
    left = np.minimum(left, np.where(ran >= 0, at(runs["end_ns"], ran), NEVER))
    gone = np.minimum(another, left)
    # Of one that is not told to have left any more, the last sign is all.
    last = at(time, signs.at_or_before(tid, np.full(len(tid), NEVER - 1)))
    gone = np.where(left == NEVER, np.minimum(gone, last), gone)
    following = signs.at_or_after(tid, gone + 1)
    until = np.minimum(np.where(following >= 0, at(time, following), NEVER), left)
    some = np.flatnonzero(until > gone)
    return tid[some], gone[some], until[some]


def hidden(window: Window, sleeps: Sleeps) -> tuple[Ints, Ints, Ints]:
    """Which threads left the CPU once more than they were seen to, and between which times."""
    told = window.columns("sched_hidden", "tid")
    last = sleeps.resumed.at_or_before(told["tid"], told["time_ns"])
    return told["tid"], at(sleeps.on_ns, last), told["time_ns"]


def _signs(window: Window, sleeps: Sleeps, workers: Ints) -> tuple[Ints, Ints]:
    """Threads and times at which they ran."""
    told = [window.columns(point, "tid") for point in (*SIGNS, "io_uring_complete")]
    woke = np.flatnonzero(sleeps.asleep & ~sleeps.interrupted)
    who = [sleeps.tid, sleeps.waker[woke], *(events["tid"] for events in told)]
    when = [sleeps.on_ns, sleeps.wake_ns[woke], *(events["time_ns"] for events in told)]
    tid, time = np.concatenate(who), np.concatenate(when)
    some = np.flatnonzero(one_of(tid, workers))
    return tid[some], time[some]


def _of_another(window: Window, sleeps: Sleeps) -> Ints:
    """When the CPU that each thread ran again on was next told to be another's."""
    found = np.full(len(sleeps), NEVER)
    # What an interrupt tells of has the thread that it came amid.
    ended = window.columns("block_rq_complete", "cpu", "tid")
    cpu = np.concatenate([sleeps.cpu, ended["cpu"]])
    tid = np.concatenate([sleeps.tid, ended["tid"]])
    time = np.concatenate([sleeps.on_ns, ended["time_ns"]])
    order = order_of(cpu, time)
    cpu, tid, time = cpu[order], tid[order], time[order]
    last = np.flatnonzero(np.append(changes(tid)[1:] | changes(cpu)[1:], True))
    following = np.minimum(last + 1, len(order) - 1)
    other = np.where(cpu[following] == cpu[last], time[following], NEVER)
    other[-1] = NEVER
    run = np.cumsum(changes(tid) | changes(cpu)) - 1
    resumed = order < len(sleeps)
    found[order[resumed]] = other[run[resumed]]
    return found
