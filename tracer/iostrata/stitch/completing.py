# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: requests on loop devices in, what kept them from being complete at the end out.

The worker of a loop device that wrote to the file below raises a softirq for each request that
it is done with (blk_mq_complete_request, of block/blk-mq.c), which the CPU's ksoftirqd runs, or
the end of the next interrupt. What went below as direct I/O is ended by the interrupt of the
disk there, or by a worker of the file system there that this lets go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Containing, Ints, at, integers, one_of
from iostrata.stitch.bios import Bios
from iostrata.stitch.requests import Requests
from iostrata.stitch.serving import LoopWork, Service
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.wakers import Slept
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Columns
from iostrata.trace import Trace

KSOFTIRQD: Final = re.compile(rb"ksoftirqd/(\d{1,5})")


@dataclass(frozen=True, eq=False)
class Completing:
    """Requests, rows of Requests, from when to when nobody was at work for them below any more.

    ``tid``: who was to complete them, -1: not known; ``sleep``: which of its sleeps that ended,
    which is part of what direct I/O waited for; -1: none. ``since_ns``: when nothing but that
    thread was left to wait for, -1: not known.
    """

    request: Ints
    tid: Ints
    done_ns: Ints
    since_ns: Ints
    complete_ns: Ints
    sleep: Ints

    def service(self) -> Service:
        """``owner``: row of the request."""
        return Service(self.request, self.tid, self.done_ns, self.complete_ns)

    def late(self, first: int) -> Spans:
        """Completions that came late. ``first``: the owner that is the first request."""
        spans, owner = SpanList(), np.where(self.since_ns >= 0, self.request + first, -1)
        spans.add(owner, "wakeup.interrupt", self.since_ns, self.complete_ns)
        return spans.collect()

    def waits(self, first: int) -> Slept:
        """What direct I/O waited for below after the disk there was done with it."""
        mine = self.sleep >= 0
        return Slept(self.request[mine] + first, self.sleep[mine], self.done_ns[mine])


def completing(
    work: LoopWork, bios: Bios, requests: Requests, completed: Columns, sleeps: Sleeps, trace: Trace
) -> Completing:
    """Of requests on loop devices that tell of their workers. ``completed``: all completions."""
    rows = np.flatnonzero(one_of(requests.device_key, work.device_key) & (requests.completion >= 0))
    if not len(rows):
        return Completing(*[rows] * 6)
    issue, complete = requests.issue_ns[rows], requests.complete_ns[rows]
    device = requests.device_key[rows]
    # Whichever worker it was that served it: none is at work any more.
    last = AsOf(work.device_key, work.end_ns).at_or_before(device, complete)
    done = at(work.end_ns, last)
    begun = AsOf(work.device_key, work.begin_ns).at_or_before(device, complete)
    over = (done > issue) & (at(work.end_ns, begun) <= complete)
    ended = np.full(len(requests.key), -1)
    below = np.flatnonzero(bios.above >= 0)
    np.maximum.at(ended, bios.above[below], bios.life_end_ns[below])
    direct = (ended[rows] >= 0) & ~requests.flush[rows]
    done = np.where(direct, ended[rows], done)
    cpu = completed["cpu"][requests.completion[rows]]
    tid = _who_completes(requests.completed_by[rows], cpu, trace)
    sleep = np.full(len(rows), -1)
    if direct.any():
        woken = np.flatnonzero(sleeps.asleep)
        last = AsOf(sleeps.tid[woken], sleeps.wake_ns[woken]).at_or_before(tid, complete)
        sleep = at(woken, last)
    wake = at(sleeps.wake_ns, sleep)
    let_go = direct & (wake > done)
    since = np.where(direct, np.where(let_go, wake, -1), done)
    # A worker of the device itself only hands on what it is given.
    run = Containing(work.tid, work.begin_ns, work.end_ns).find(at(sleeps.waker, sleep), wake)
    sleep = np.where(let_go & (run < 0), sleep, -1)
    some = np.flatnonzero((over | direct) & (done < complete))
    return Completing(rows[some], tid[some], done[some], since[some], complete[some], sleep[some])


def _who_completes(itself: Ints, cpu: Ints, trace: Trace) -> Ints:
    """Which thread did; where an interrupt came before it, which one would have."""
    threads = trace.points["thread"]
    of_cpu: dict[int, int] = {}
    for comm, tid in zip(threads["comm"].tolist(), integers(threads["subject_tid"]), strict=True):
        if match := KSOFTIRQD.fullmatch(comm):
            of_cpu[int(match[1])] = int(tid)
    if not of_cpu:
        return itself
    names = np.full(max(of_cpu) + 1, -1)
    names[list(of_cpu)] = list(of_cpu.values())
    known = (itself < 0) & (cpu < len(names))
    return np.where(known, names[np.where(known, cpu, 0)], itself)
