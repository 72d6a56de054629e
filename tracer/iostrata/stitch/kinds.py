# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: threads that are recorded in, what each was at a time out.

A thread is told of once, and anew now and then: where that is lost, what else it did may say what
it is.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, columns_of, distinct, integers, one_of
from iostrata.stitch.wakeup import TASK_NOLOAD, Sleeps
from iostrata.stitch.window import Window
from iostrata.trace import Points, Trace
from iostrata.trace.layout import (
    THREAD_BESIDE,
    THREAD_HELPER,
    THREAD_JOURNAL,
    THREAD_TARGET,
    THREAD_WORKER,
)

SERVING: Final = ("kvm_exit", "svc_call", "nvmet_work", "target_work", "osd_work")
"""Where any of these is, other threads of the kernel than helpers may be recorded."""
# A worker's name: its pool's (a CPU or a number), its own in that, and which of a CPU's two it is.
WORKER: Final = re.compile(rb"kworker/(u?\d+):\d+(H?)")
# How io_uring's workers are called, and its threads that submit.
URING: Final = b"iou-"
# Those of the pools that are of no one CPU.
UNBOUND: Final = b"kworker/u"


def kinds_of(window: Window) -> Kinds:
    """Of the threads of all of its trace."""
    return Kinds(window.trace)


class Kinds:
    """Kinds of threads, as ``enum thread_kind`` of events.h has them.

    ``told``: by thread (``tid``) and time, rows of ``kinds``; ``named``: whom an event names;
    ``others``: whom none does, and something else shows to be no helper; ``forgotten``: rows of
    ``forgotten_at``.
    """

    def __init__(self, trace: Trace) -> None:
        threads = trace.points["thread"]
        tid, time, kind = (integers(threads[name]) for name in ("subject_tid", "time_ns", "kind"))
        forgotten = np.flatnonzero(kind == 0)
        self.forgotten_at = time[forgotten]
        self.forgotten = AsOf(tid[forgotten], self.forgotten_at)
        untold, shown = _shown(trace, tid, kind)
        # Only a helper is forgotten: that it is one is lost where this is told of it first.
        before = AsOf(tid, time).at_or_before(tid[forgotten], self.forgotten_at - 1)
        first = forgotten[before < 0]
        self.kinds = np.concatenate([kind, np.full(len(first), THREAD_HELPER), shown])
        self.named, self.tid = distinct(tid), np.concatenate([tid, tid[first], untold])
        self.others = distinct(untold[shown != THREAD_HELPER])
        since = np.zeros(len(first) + len(untold), np.int64)
        self.told = AsOf(self.tid, np.concatenate([time, since]))
        self._pools = np.full(len(self.kinds), -1)
        self._bound = np.zeros(len(self.kinds), np.bool_)
        names = np.concatenate([threads["comm"], threads["comm"][first]])
        helpers = np.flatnonzero(self.kinds[: len(names)] == THREAD_HELPER)
        pools: dict[tuple[bytes, ...], int] = {}
        for row, comm in zip(helpers.tolist(), names[helpers].tolist(), strict=True):
            if match := WORKER.match(comm):
                self._pools[row] = pools.setdefault(match.groups(), len(pools))
                self._bound[row] = not comm.startswith(UNBOUND)

    def of(self, tid: Ints, time_ns: Ints) -> Ints:
        """The thread's kind at a time, 0: it is not recorded.

        Some say who they are at the end of their first call only, or their first run.
        """
        known = self.told.at_or_nearest(tid, time_ns)
        return np.where(known >= 0, at(self.kinds, known), 0)

    def forgotten_ns(self, tid: Ints, time_ns: Ints) -> Ints:
        """When the threads were no longer recorded for a while, last before a time, -1: always."""
        return at(self.forgotten_at, self.forgotten.at_or_before(tid, time_ns))

    def pool_of(self, tid: Ints, time_ns: Ints) -> Ints:
        """Which pool of the kernel's the threads are workers of, -1: of none that is known."""
        return at(self._pools, self.told.at_or_nearest(tid, time_ns))

    def bound_pool_of(self, tid: Ints, time_ns: Ints) -> Ints:
        """The same, if that is a CPU's: it has one worker after the other, until one sleeps."""
        known = self.told.at_or_nearest(tid, time_ns)
        return np.where(at(self._bound.astype(np.int64), known) > 0, at(self._pools, known), -1)

    def are_helpers(self, tid: Ints, time_ns: Ints) -> NDArray[np.bool_]:
        """Which threads are the kernel's own, and serve others."""
        helpers: NDArray[np.bool_] = self.of(tid, time_ns) == THREAD_HELPER
        return helpers

    def ended(self, sleeps: Sleeps) -> NDArray[np.bool_]:
        """Which sleeps a thread of the kernel ended, as itself.

        Every one that lets a recorded thread go is told of, but by older recordings none.
        """
        kind = self.of(sleeps.waker, sleeps.wake_ns)
        told = bool((self.kinds == THREAD_HELPER).any())
        works = one_of(kind, (THREAD_HELPER, THREAD_WORKER)) | ((kind == 0) & (not told))
        ended: NDArray[np.bool_] = works & (sleeps.waker > 0) & ~sleeps.interrupted
        return ended


def _shown(trace: Trace, told: Ints, kind: Ints) -> tuple[Ints, Ints]:
    """Threads of which a loss may have what names them, and what each shows to be.

    And those that no event ever names, as only what they are at beside others' syncs is recorded.

    Who commits a journal does so. Who makes calls is none of the kernel's threads; which program's
    it is, is no matter here. A worker of io_uring says what it is at. Who makes one gives it its
    own name first, by which it is one itself, or a program's: older recorders tell no more of who
    makes no calls. What else sleeps as the kernel's threads do that have nothing to do, is a
    helper, where no other ones are recorded.
    """
    points = trace.points
    beside = distinct(integers(points["btrfs_beside"]["tid"]))
    beside = beside[~one_of(beside, told)]
    tids, kinds = [beside], [np.full(len(beside), THREAD_BESIDE)]
    if len(trace.losses):
        resumes = points["sched_resume"].integers("subject_tid", "state", "wake_ns")
        idle = (resumes["state"] & TASK_NOLOAD > 0) & (resumes["wake_ns"] > 0)
        idle &= not any(len(points[point]) for point in SERVING)
        makers, by_worker = _makers(points["thread"])
        known = told[kind == THREAD_JOURNAL]
        for shown, tid in (
            (THREAD_JOURNAL, integers(points["jbd2_start_commit"]["tid"])),
            (THREAD_TARGET, integers(points["syscall"]["tid"])),
            (THREAD_WORKER, integers(points["io_uring_work"]["tid"])),
            (THREAD_WORKER, makers[by_worker]),
            (THREAD_TARGET, makers[~by_worker]),
            (THREAD_HELPER, resumes["subject_tid"][idle]),
        ):
            found = distinct(tid)
            found = found[~one_of(found, np.concatenate([known, *tids]))]
            tids.append(found)
            kinds.append(np.full(len(found), shown))
            known = told
    return np.concatenate(tids), np.concatenate(kinds)


def _makers(threads: Points) -> tuple[Ints, NDArray[np.bool_]]:
    """Who made workers of io_uring, and which of those have the name of one."""
    columns = columns_of(threads, "tid", "subject_tid", "kind")
    made = columns["kind"] == THREAD_WORKER
    rows = np.flatnonzero(made & (columns["tid"] != columns["subject_tid"]))
    named = np.char.startswith(threads["comm"][rows].astype("S16"), URING)
    return columns["tid"][rows], named
