# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: when a process's workers of io_uring had nothing to do in, by when they had run
requests that they said nothing of out.

A worker that is through with a request without leaving its CPU, and without a bio that is queued
(a limit holds that back), does not say that it ran it. When none of them has anything to do, all
that was handed over to them before has been run.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import NEVER, AsOf, Ints, Union, at, changes, distinct, one_of, order_of
from iostrata.stitch.taken import workers_of
from iostrata.stitch.window import Columns, Window, whole
from iostrata.trace.layout import WAKE_TIMER

# The state of a worker that has nothing to do.
IDLE: Final = 1
NAMES: Final = ("subject_tid", "off_ns", "wake_ns", "waker_tid", "waker_context", "state")


def run_by(window: Window, tid: Ints, handed_ns: Ints) -> Ints:
    """By when what threads handed over at some times had been run; NEVER: that is not known."""
    pools = window.once(_Pools)
    process, since = pools.process_of(tid), pools.there_from(tid, handed_ns)
    found = np.full(len(tid), NEVER)
    for one in distinct(process).tolist():
        rows = np.flatnonzero(process == one)
        ends = np.append(pools.busy(one).ends, NEVER)
        found[rows] = ends[np.searchsorted(ends, since[rows])]
    return found


class _Pools:
    """The workers of a process are looked at together: any may take what is handed over to them."""

    def __init__(self, window: Window) -> None:
        threads = whole(window.trace).columns("thread", "subject_tid", "tgid")
        self._process = threads["tgid"]
        self._told = AsOf(threads["subject_tid"], np.zeros_like(self._process))
        handed = window.columns("io_uring_queue_async_work", "tid")
        self._handed, self._handed_ns = AsOf(handed["tid"], handed["time_ns"]), handed["time_ns"]
        resumes = window.columns("sched_resume", *NAMES)
        rows = np.flatnonzero(one_of(resumes["subject_tid"], workers_of(window)))
        rows = rows[order_of(resumes["subject_tid"][rows], resumes["time_ns"][rows])]
        resumes = {name: column[rows] for name, column in resumes.items()}
        self._let_go = AsOf(resumes["waker_tid"], resumes["wake_ns"])
        self._wake_ns = resumes["wake_ns"]
        self._worker, self._begin_ns, self._end_ns = _busy(window, resumes)
        self._busy: dict[int, Union] = {}

    def process_of(self, tid: Ints) -> Ints:
        """A process's first thread has its number, and need not have been told of."""
        known = self._told.at_or_before(tid, np.zeros_like(tid))
        return np.where(known >= 0, at(self._process, known), tid)

    def there_from(self, tid: Ints, handed_ns: Ints) -> Ints:
        """When workers could have known of requests: who hands one over says so first, and then
        lets one of them go, if any is idle."""
        following = self._handed.at_or_after(tid, handed_ns + 1)
        next_ns = np.where(following >= 0, at(self._handed_ns, following), NEVER)
        woken = at(self._wake_ns, self._let_go.at_or_after(tid, handed_ns))
        return np.where((woken >= 0) & (woken < next_ns), woken, handed_ns)

    def busy(self, process: int) -> Union:
        """When any of its workers had something to do, or may have."""
        if process not in self._busy:
            of = self.process_of(self._worker)
            # One of which it is not known whose it is may be anyone's.
            rows = np.flatnonzero((of == process) | (of == self._worker))
            self._busy[process] = Union(self._begin_ns[rows], self._end_ns[rows])
        return self._busy[process]


def _busy(window: Window, resumes: Columns) -> tuple[Ints, Ints, Ints]:
    """Whenever a worker may have been at something: which, from when to when.

    ``resumes``: theirs, thread by thread.
    """
    tid, off, wake, _, context, state = (resumes[name] for name in NAMES)
    said = window.columns("io_uring_work", "tid", "request_key")
    at_one = at(said["request_key"], AsOf(said["tid"], said["time_ns"]).at_or_before(tid, off)) > 0
    rest = np.flatnonzero((wake > 0) & (state == IDLE) & ~at_one)
    first = np.flatnonzero(changes(tid))
    # Of one that was not born here nobody knows what it did before.
    born = np.where(wake[first] == 0, off[first], 0)
    worker = np.concatenate([tid[first], tid[rest]])
    rests_ns = np.concatenate([np.full(len(first), -1), off[rest]])
    begin = np.concatenate([born, wake[rest]])
    # It ends when its last sleep has lasted as long as an idle one is kept.
    last = np.append(first[1:], len(tid))[: len(first)] - 1
    ends = np.concatenate([first < 0, one_of(rest, last) & (context[rest] == WAKE_TIMER)])
    order = order_of(worker, rests_ns)
    worker, begin, ends = worker[order], begin[order], ends[order]
    end = np.append(rests_ns[order][1:], NEVER)[: len(order)]
    end[np.flatnonzero(changes(worker))[1:] - 1] = NEVER
    busy = np.flatnonzero((end > begin) & ~ends)
    return worker[busy], begin[busy], end[busy]
