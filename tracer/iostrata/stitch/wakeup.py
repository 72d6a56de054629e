# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: scheduler events in, sleeps out, and what ended each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, joined
from iostrata.layers import STACK
from iostrata.stitch.people import OWN_RUNTIME
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.window import Window
from iostrata.trace.layout import WAKE_INTERRUPT, WAKE_TIMER

TASK_INTERRUPTIBLE: Final = 1
TASK_NOLOAD: Final = 0x400
KEPT: Final = {
    "wakeup.runqueue": "throttle.cpu",
    "handed.wakeup.runqueue": "handed.throttle.cpu",
    "served.wakeup.runqueue": "served.throttle.cpu",
    "done.wakeup.runqueue": "done.throttle.cpu",
    "done.blocked": "done.blocked",
}
"""Ranks of waits for a CPU, and what each is as long as a quota is why there is none."""


def by_interrupt(context: Ints) -> NDArray[np.bool_]:
    """By no thread."""
    found: NDArray[np.bool_] = (context == WAKE_INTERRUPT) | (context == WAKE_TIMER)
    return found


@dataclass(frozen=True, eq=False)
class Sleeps:
    """Times off the CPU: one row each; a thread's do not overlap. ``wake_ns`` 0: preempted,
    runnable throughout.

    ``waker``: -1 where nobody was seen to end the sleep, which then lasts until ``on_ns``.
    ``context``: an ``enum wake_context``; ``waker_cpu``: where it is known. ``cpu``: on which
    it ran again; ``idle_ns``: since when that had had nothing to do, 0: it had, or not known.
    ``throttled_ns``: for how long of the wait for a CPU its control group's quota, or its own
    runtime, was used up; ``limit``: which group's that is, 0: not told, OWN_RUNTIME.
    ``other_work``: 1: of a worker of the kernel's pools, that it was at another work than the one
    that it had slept in before; ``waker_other_work``: so was its waker, when that let it go.
    ``met``: 1: so it may have been, when it was first met after this sleep.
    """

    tid: Ints
    off_ns: Ints
    wake_ns: Ints
    on_ns: Ints
    waker: Ints
    waker_cpu: Ints
    context: Ints
    state: Ints
    cpu: Ints
    idle_ns: Ints
    throttled_ns: Ints
    limit: Ints
    other_work: Ints
    waker_other_work: Ints
    met: Ints

    def __len__(self) -> int:
        return len(self.tid)

    @cached_property
    def asleep(self) -> NDArray[np.bool_]:
        return self.wake_ns > 0

    @property
    def interruptible(self) -> NDArray[np.bool_]:
        """Which were for what a signal would have ended too: not for a disk, a page, a lock."""
        found: NDArray[np.bool_] = self.asleep & (self.state & TASK_INTERRUPTIBLE > 0)
        return found

    @property
    def interrupted(self) -> NDArray[np.bool_]:
        return by_interrupt(self.context)

    @cached_property
    def runnable_ns(self) -> Ints:
        """From when on it could have run."""
        return np.where(self.asleep, self.wake_ns, self.off_ns)

    @cached_property
    def released_ns(self) -> Ints:
        """Until when a quota kept it from running; its other waits are behind that."""
        released: Ints = np.minimum(self.runnable_ns + self.throttled_ns, self.on_ns)
        return released

    @cached_property
    def throttled(self) -> bool:
        """Whether a quota kept any of them from running."""
        return bool((self.throttled_ns > 0).any())

    @cached_property
    def resumed(self) -> AsOf:
        """Looks them up by thread, and by when that ran again."""
        return AsOf(self.tid, self.on_ns)

    def since(self, time_ns: Ints) -> Sleeps:
        """What is left of each from a time on, which lies before it ran again."""
        wake = np.where(self.asleep, np.maximum(self.wake_ns, time_ns), 0)
        left = replace(self, off_ns=np.maximum(self.off_ns, time_ns), wake_ns=wake)
        kept_ns = np.maximum(self.released_ns - left.runnable_ns, 0)
        return replace(left, throttled_ns=kept_ns)

    def rows(self, rows: Ints) -> Sleeps:
        return Sleeps(*(getattr(self, name).take(rows) for name in self.__dataclass_fields__))


def sleeps_of(window: Window) -> Sleeps:
    """One row per sched_resume event, in their order, and behind them one per sched_woken."""
    return Sleeps(**joined([_resumed(window), _woken(window)]))


def _woken(window: Window) -> Sleeps:
    """How kernel workers came to what they did when they were first met.

    Since when each had slept is not known: if it was idle (TASK_NOLOAD), that is no matter.
    """
    woken = window.columns(
        "sched_woken", "cpu", "subject_tid", "wake_ns", "on_ns", "waker_tid", "waker_cpu",
        "waker_context", "state",
    )  # fmt: skip
    none = np.zeros(len(woken["wake_ns"]), np.int64)
    return Sleeps(
        tid=woken["subject_tid"],
        off_ns=woken["wake_ns"],
        wake_ns=woken["wake_ns"],
        on_ns=woken["on_ns"],
        waker=woken["waker_tid"],
        waker_cpu=woken["waker_cpu"],
        context=woken["waker_context"],
        state=woken["state"],
        cpu=woken["cpu"],
        idle_ns=none,
        throttled_ns=none,
        limit=none,
        other_work=none,
        waker_other_work=none,
        met=none + 1,
    )


def _resumed(window: Window) -> Sleeps:
    later = ("waker_cpu", "waker_context", "idle_ns", "other_work", "waker_other_work")
    told = [name for name in later if name in window.trace.points["sched_resume"].fields]
    resumes = window.columns(
        "sched_resume", "cpu", "subject_tid", "off_ns", "wake_ns", "waker_tid", "state", *told
    )
    on, state = resumes["time_ns"], resumes["state"]
    unseen = (resumes["wake_ns"] == 0) & (state != 0)
    unknown = np.zeros(len(on), np.int64)
    throttled_ns, limit = _kept(window, resumes["subject_tid"], on)
    return Sleeps(
        tid=resumes["subject_tid"],
        off_ns=resumes["off_ns"],
        wake_ns=np.where(unseen, on, resumes["wake_ns"]),
        on_ns=on,
        waker=np.where(unseen, -1, resumes["waker_tid"]),
        waker_cpu=resumes.get("waker_cpu", unknown),
        context=resumes.get("waker_context", unknown),
        state=state,
        cpu=resumes["cpu"],
        idle_ns=resumes.get("idle_ns", unknown),
        throttled_ns=throttled_ns,
        limit=limit,
        other_work=resumes.get("other_work", unknown),
        waker_other_work=resumes.get("waker_other_work", unknown),
        met=unknown,
    )


def _kept(window: Window, tid: Ints, on_ns: Ints) -> tuple[Ints, Ints]:
    """For how long limits kept threads that ran again at a time, and which limit did: as
    ``Sleeps`` has both."""
    fields = window.trace.points["sched_throttled"].fields
    told = [name for name in ("cgroup", "own") if name in fields]
    kept = window.columns("sched_throttled", "subject_tid", "throttled_ns", *told)
    if not len(kept["time_ns"]):
        return np.zeros(len(tid), np.int64), np.zeros(len(tid), np.int64)
    row = AsOf(kept["subject_tid"], kept["time_ns"]).at_or_before(tid, on_ns)
    row = np.where(at(kept["time_ns"], row) == on_ns, row, -1)
    none = np.zeros(len(kept["time_ns"]), np.int64)
    limit = np.where(kept.get("own", none) > 0, OWN_RUNTIME, kept.get("cgroup", none))
    return np.maximum(at(kept["throttled_ns"], row), 0), np.where(row >= 0, at(limit, row), 0)


def at_rest(sleeps: Sleeps, rows: Ints) -> NDArray[np.bool_]:
    """In which of some sleeps (-1: none) a kernel thread had nothing to do."""
    rest: NDArray[np.bool_] = (at(sleeps.wake_ns, rows) > 0) & (
        at(sleeps.state, rows) & TASK_NOLOAD > 0
    )
    return rest


def run_queue(sleeps: Sleeps, owner: Ints, first: int) -> Spans:
    """Runnable without a CPU: from the wake-up (or the preemption) to running."""
    number = np.arange(first, first + len(sleeps))
    released = sleeps.released_ns if sleeps.throttled else None
    return _waits(owner, "wakeup.runqueue", sleeps.runnable_ns, sleeps.on_ns, released, number)


def without_cpu(
    sleeps: Sleeps,
    sleep: Ints,
    owner: Ints,
    begin_ns: Ints,
    end_ns: Ints,
    first: int,
    rank: str = "wakeup.runqueue",
) -> Spans:
    """What owners waited of threads' waits for a CPU behind sleeps (rows, -1: none), and of that
    what a quota kept those from one; whoever waits for one, it is told here.

    ``Spans.of`` is the row of the sleep, numbered from ``first`` on.
    """
    begin = np.maximum(at(sleeps.runnable_ns, sleep), begin_ns)
    end, released = np.minimum(at(sleeps.on_ns, sleep), end_ns), None
    if sleeps.throttled:
        released = np.minimum(at(sleeps.released_ns, sleep), end_ns)
    return _waits(owner, rank, begin, end, released, sleep + first)


def _waits(
    owner: Ints, rank: str, begin_ns: Ints, end_ns: Ints, released_ns: Ints | None, number: Ints
) -> Spans:
    """``released_ns``: until when a quota kept them; None: it did none."""
    spans = SpanList()
    spans.add(owner, rank, begin_ns, end_ns, number)
    if released_ns is not None:
        spans.add(owner, KEPT[rank], begin_ns, released_ns, number)
    return spans.collect()


# Of each rank, whether its end wakes who sleeps.
CAUSE = np.array([rank.wakes for rank in STACK])
