# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's workers in, what a process's pool of them was short of out.

Whoever of them is free takes what is there next: what is handed over waits for any of them, and
for those that let them go.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    Union,
    at,
    changes,
    distinct,
    joined,
    one_of,
    order_of,
    overlapping,
)
from iostrata.stitch.blockio import MOST
from iostrata.stitch.serving import Service
from iostrata.stitch.taken import workers_of
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window, whole
from iostrata.trace.layout import WAKE_TIMER

# The state of a worker that has nothing to do.
IDLE: Final = 1


class Pools:
    """Looks at all workers of a process together."""

    def __init__(self, window: Window, sleeps: Sleeps) -> None:
        self._window = window
        rows = np.flatnonzero(one_of(sleeps.tid, workers_of(window)))
        self._every, self._sleeps = sleeps, sleeps.rows(rows[order_of(sleeps.tid[rows])])
        handed = window.columns("io_uring_queue_async_work", "tid")
        self._handed, self._handed_ns = AsOf(handed["tid"], handed["time_ns"]), handed["time_ns"]
        said = window.columns("io_uring_work", "tid", "request_key")
        self._said, self._key = AsOf(said["tid"], said["time_ns"]), said["request_key"]
        self._unions: dict[int, Union] = {}

    def run_by(self, tid: Ints, handed_ns: Ints) -> Ints:
        """By when what threads handed over at some times had been run; NEVER: that is not known.

        A worker that is through with a request without leaving its CPU, and without a bio that is
        queued (a limit holds that back), does not say that it ran it. When none of them has
        anything to do, all that was there before has been run.
        """
        process, since = self.process_of(tid), self._there_from(tid, handed_ns)
        found = np.full(len(tid), NEVER)
        for one in distinct(process).tolist():
            rows = np.flatnonzero(process == one)
            ends = np.append(self._union(one).ends, NEVER)
            found[rows] = ends[np.searchsorted(ends, since[rows])]
        return found

    def short_of(self, last: Service) -> Service:
        """Who needed a CPU while something was there for a process's workers: any of those, and who
        was to let one go. ``last``: who took it up at last, and from when on it was there."""
        theirs = Service(**joined([self._without_cpu, self._letting_go]))
        row, one = overlapping(
            self.process_of(last.tid), last.begin_ns, last.end_ns,
            theirs.owner, theirs.begin_ns, theirs.end_ns, MOST,
        )  # fmt: skip
        return Service(
            last.owner[row],
            theirs.tid[one],
            np.maximum(theirs.begin_ns[one], last.begin_ns[row]),
            np.minimum(theirs.end_ns[one], last.end_ns[row]),
        )

    def process_of(self, tid: Ints) -> Ints:
        """A process's first thread has its number, and need not have been told of."""
        threads = whole(self._window.trace).columns("thread", "subject_tid", "tgid")
        always = np.zeros_like(threads["tgid"])
        known = AsOf(threads["subject_tid"], always).at_or_before(tid, np.zeros_like(tid))
        return np.where(known >= 0, at(threads["tgid"], known), tid)

    def _there_from(self, tid: Ints, handed_ns: Ints) -> Ints:
        """When workers could have known of requests: who hands one over says so first, and then
        lets one of them go, if any is idle."""
        following = self._handed.at_or_after(tid, handed_ns + 1)
        next_ns = np.where(following >= 0, at(self._handed_ns, following), NEVER)
        wake_ns = self._sleeps.wake_ns
        woken = at(wake_ns, AsOf(self._sleeps.waker, wake_ns).at_or_after(tid, handed_ns))
        return np.where((woken >= 0) & (woken < next_ns), woken, handed_ns)

    @cached_property
    def _at_one(self) -> NDArray[np.bool_]:
        """In which of the workers' sleeps they were at a request."""
        last = self._said.at_or_before(self._sleeps.tid, self._sleeps.off_ns)
        found: NDArray[np.bool_] = (last >= 0) & (at(self._key, last) != 0)
        return found

    @cached_property
    def _idle(self) -> NDArray[np.bool_]:
        """In which of their sleeps they had nothing to do."""
        idle: NDArray[np.bool_] = self._sleeps.asleep & (self._sleeps.state == IDLE)
        return idle & ~self._at_one

    @cached_property
    def _free(self) -> Ints:
        """Behind which of their sleeps they were to begin with something, or may have been."""
        sleeps = self._sleeps
        following = self._said.at_or_after(sleeps.tid, sleeps.on_ns)
        begins = ~sleeps.asleep & ~self._at_one & (following >= 0)
        begins &= at(self._key, following) != 0
        return np.flatnonzero(self._idle | begins)

    @cached_property
    def _without_cpu(self) -> Service:
        """Workers that were to begin with something, or were kept in the midst of it: no other is
        let go before they sleep (nr_running, io_uring/io-wq.c). ``owner``: their process."""
        kept = np.flatnonzero(~self._sleeps.asleep & self._at_one)
        some = self._sleeps.rows(np.concatenate([self._free, kept]))
        return Service(self.process_of(some.tid), some.tid, some.runnable_ns, some.on_ns)

    @cached_property
    def _letting_go(self) -> Service:
        """Threads that let an idle worker of their process go, or made one, until they did.

        That is asked of them by a worker that falls asleep while more is there: at the latest by
        the last one before. Where they had handed something over since they ran again, it was for
        that.
        """
        free = self._sleeps.rows(self._free)
        process, since_ns = self.process_of(free.tid), free.runnable_ns
        tid = np.where(free.asleep, free.waker, self._maker_of(free.tid, since_ns))
        before = self._every.resumed.at_or_before(tid, since_ns)
        handed = at(self._handed_ns, self._handed.at_or_before(tid, since_ns))
        asked = (tid > 0) & (self.process_of(tid) == process)
        asked &= handed < at(self._every.on_ns, before)
        at_one = np.flatnonzero(self._sleeps.asleep & self._at_one)
        off_ns, of = self._sleeps.off_ns[at_one], self.process_of(self._sleeps.tid[at_one])
        last = AsOf(of, off_ns).at_or_before(process, since_ns)
        rows = np.flatnonzero(asked & (last >= 0))
        return Service(process[rows], tid[rows], off_ns[last[rows]], since_ns[rows])

    def _maker_of(self, tid: Ints, born_ns: Ints) -> Ints:
        """Who made threads that were born at some times, -1: that is not told."""
        told = whole(self._window.trace).columns("thread", "tid", "subject_tid")
        made = np.flatnonzero(told["tid"] != told["subject_tid"])
        found = AsOf(told["subject_tid"][made], told["time_ns"][made]).at_or_before(tid, born_ns)
        return at(told["tid"][made], found)

    def _union(self, process: int) -> Union:
        """When any of a process's workers had something to do, or may have."""
        if process not in self._unions:
            worker, begin_ns, end_ns = self._busy
            of = self.process_of(worker)
            # One of which it is not known whose it is may be anyone's.
            rows = np.flatnonzero((of == process) | (of == worker))
            self._unions[process] = Union(begin_ns[rows], end_ns[rows])
        return self._unions[process]

    @cached_property
    def _busy(self) -> tuple[Ints, Ints, Ints]:
        """Whenever a worker may have been at something: which, from when to when."""
        sleeps = self._sleeps
        tid, rest = sleeps.tid, np.flatnonzero(self._idle)
        first = np.flatnonzero(changes(tid))
        # Of one that was not born here nobody knows what it did before.
        born = np.where(sleeps.asleep[first], 0, sleeps.off_ns[first])
        worker = np.concatenate([tid[first], tid[rest]])
        rests_ns = np.concatenate([np.full(len(first), -1), sleeps.off_ns[rest]])
        begin = np.concatenate([born, sleeps.wake_ns[rest]])
        # It ends when its last sleep has lasted as long as an idle one is kept.
        last = np.append(first[1:], len(tid))[: len(first)] - 1
        ended = one_of(rest, last) & (sleeps.context[rest] == WAKE_TIMER)
        order = order_of(worker, rests_ns)
        ends = np.append(np.zeros(len(first), np.bool_), ended)[order]
        worker, begin = worker[order], begin[order]
        end = np.append(rests_ns[order][1:], NEVER)[: len(order)]
        end[np.flatnonzero(changes(worker))[1:] - 1] = NEVER
        busy = np.flatnonzero((end > begin) & ~ends)
        return worker[busy], begin[busy], end[busy]
