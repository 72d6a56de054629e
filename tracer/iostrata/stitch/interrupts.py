# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: requests in, what kept them although their disk's interrupt had come out.

Where interrupts have threads (threadirqs, PREEMPT_RT, some drivers), a disk's only wakes its thread
(__irq_wake_thread of kernel/irq/handle.c). That completes, once it has a CPU, all that the disk is
done with by then, or leaves it to the CPU's ksoftirqd. The first of them is what the interrupt was
for; since when the disk was done with the others, nothing tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, changes, distinct, integers, one_of, order_of
from iostrata.stitch.bios import Carried
from iostrata.stitch.blockio import Awaited
from iostrata.stitch.requests import Requests
from iostrata.stitch.serving import Service
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Columns, Window, whole
from iostrata.trace import Trace

# How the names begin of the threads that interrupts have (setup_irq_thread of
# kernel/irq/manage.c), and of those that soft interrupts are left to.
HARD: Final = b"irq/"
SOFT: Final = b"ksoftirqd/"
MOST: Final = 0.5
"""Of a disk's completions that are not left to ksoftirqd, in a window: fewer are of interrupts
that came upon such threads."""

KNOWN, UNTOLD = "done.wakeup.runqueue", "done.blocked"


@dataclass(frozen=True, eq=False)
class Interrupts:
    """Requests whose disk's interrupt needed a thread: one row each.

    ``requests``: how many there are at all; ``request``: row of those; ``since_ns``: since when
    the interrupt had come, or its thread had left the rest to another, and the request was issued;
    ``until_ns``: when it was complete; ``known``: the disk was done with it all that time.
    ``unmet``: nothing was recorded of the thread until then, whether it had a CPU or none.
    """

    requests: int
    request: Ints
    tid: Ints
    since_ns: Ints
    until_ns: Ints
    known: NDArray[np.bool_]
    unmet: bool = False

    def needed(self, owner: Ints, carried: Carried, awaited: Awaited, *, known: bool) -> Service:
        """When whoever has the bios (``owner``: of each, -1: nobody) needed such a thread to have
        a CPU, where the disk is known to be done with them, or where it may have been."""
        row = np.full(self.requests, -1)
        mine = np.flatnonzero(self.known == known)
        row[self.request[mine]] = mine
        bio = np.concatenate([carried.bio, awaited.bio])
        row = row[np.concatenate([carried.request, awaited.flush])]
        # Of a flush, only while the bio waited for that.
        asked = np.concatenate([np.zeros_like(carried.bio), awaited.begin_ns])
        some = np.flatnonzero((row >= 0) & (owner[bio] >= 0))
        row = row[some]
        since = np.maximum(self.since_ns[row], asked[some])
        return Service(owner[bio[some]], self.tid[row], since, self.until_ns[row])


def interrupts(
    requests: Requests, completed: Columns, stacked: Ints, sleeps: Sleeps, trace: Trace
) -> tuple[Interrupts, ...]:
    """Of the interrupts' own threads, and of those that they left requests to; none: no disk's
    interrupts have threads. ``completed``: all completions; ``stacked``: keys of devices that have
    none, but disks below."""
    hard, soft, told_ns = whole(trace).once(threads_of_interrupts)
    if not len(hard):
        return ()
    by, left = completed["tid"], one_of(completed["tid"], soft)
    itself = one_of(by, hard) & ~one_of(completed["dev"], stacked)
    handlers = _handlers(completed["dev"], np.where(itself, by, -1), left)
    mine = np.flatnonzero(left | itself)
    handler, sleep = _let_go(completed["dev"][mine], completed["time_ns"][mine], handlers, sleeps)
    row = np.full(len(by), -1)
    row[mine] = np.where(sleep >= 0, np.arange(len(mine)), -1)
    row = at(row, requests.completion)
    request = np.flatnonzero(row >= 0)
    row, issue = row[request], requests.issue_ns[request]
    sleep, handler, first = sleep[row], handler[row], _first(sleep)[row]
    wake = sleeps.wake_ns[sleep]
    every = [_unmet(requests, completed, hard, told_ns, list(handlers))]
    found = Interrupts(
        requests=len(requests.key),
        request=request,
        tid=handler,
        since_ns=np.maximum(wake, issue),
        until_ns=requests.complete_ns[request],
        known=first & (wake >= issue),
    )
    every.append(found)
    rest = np.flatnonzero(left[mine[row]])
    if not len(rest):
        return tuple(every)
    ran = np.maximum(sleeps.on_ns[sleep[rest]], issue[rest])
    every.append(
        Interrupts(
            requests=found.requests,
            request=request[rest],
            tid=by[mine[row[rest]]],
            since_ns=ran,
            until_ns=found.until_ns[rest],
            known=found.known[rest],
        )
    )
    return tuple(every)


def _unmet(
    requests: Requests, completed: Columns, hard: Ints, told_ns: Ints, disks: list[int]
) -> Interrupts:
    """Of the requests that a thread was first met with: it is recorded from then on."""
    row = np.flatnonzero((requests.completion >= 0) & one_of(requests.device_key, disks))
    tid = completed["tid"][requests.completion[row]]
    place = np.minimum(np.searchsorted(hard, tid), len(hard) - 1)
    met = told_ns[place]
    some = np.flatnonzero((hard[place] == tid) & (requests.issue_ns[row] < met))
    row, met = row[some], met[some]
    return Interrupts(
        requests=len(requests.key),
        request=row,
        tid=tid[some],
        since_ns=requests.issue_ns[row],
        until_ns=np.minimum(requests.complete_ns[row], met),
        known=np.zeros(len(row), np.bool_),
        unmet=True,
    )


def _handlers(device_key: Ints, by: Ints, left: NDArray[np.bool_]) -> dict[int, Ints]:
    """Of disks whose interrupts have threads: which ones. ``by``: such a thread that completed
    requests of a disk, -1: none did; ``left``: ksoftirqd did."""
    found = {}
    for key in distinct(device_key[by >= 0]).tolist():
        own = (device_key == key) & ~left
        mine = own & (by >= 0)
        if np.count_nonzero(mine) > MOST * np.count_nonzero(own):
            found[key] = distinct(by[mine])
    return found


def _let_go(
    device_key: Ints, time_ns: Ints, handlers: dict[int, Ints], sleeps: Sleeps
) -> tuple[Ints, Ints]:
    """The thread of each disk's interrupt that had last run by a time, and the sleep that this
    ended; -1: none."""
    handler, sleep = np.full((2, len(time_ns)), -1)
    for key, tids in handlers.items():
        mine = np.flatnonzero(device_key == key)
        runs = np.flatnonzero(sleeps.asleep & one_of(sleeps.tid, tids))
        runs = runs[order_of(sleeps.on_ns[runs])]
        last = np.searchsorted(sleeps.on_ns[runs], time_ns[mine], side="right") - 1
        sleep[mine] = at(runs, last)
        handler[mine] = at(sleeps.tid, sleep[mine])
    return handler, sleep


def _first(sleep: Ints) -> NDArray[np.bool_]:
    """Whether each is the first that is behind its sleep."""
    found, order = np.zeros(len(sleep), np.bool_), order_of(sleep)
    found[order[changes(sleep[order])]] = True
    return found


def threads_of_interrupts(window: Window) -> tuple[Ints, Ints, Ints]:
    """Those that were recorded: interrupts' own, those of soft interrupts, and since when the
    former were."""
    threads = window.trace.points["thread"]
    name, tid = threads["comm"].astype("S16"), integers(threads["subject_tid"])
    hard, soft = (distinct(tid[np.char.startswith(name, begin)]) for begin in (HARD, SOFT))
    time = integers(threads["time_ns"])
    first = AsOf(tid, time).at_or_after(hard, np.zeros(len(hard), np.int64))
    return hard, soft, at(time, first)
