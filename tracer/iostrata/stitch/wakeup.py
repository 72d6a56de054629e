# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: scheduler events in, sleeps out, and what ended each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at
from iostrata.layers import STACK
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.window import Window


@dataclass(frozen=True)
class Sleeps:
    """Times off the CPU: one row each. ``wake_ns`` 0: preempted, runnable throughout."""

    tid: Ints
    off_ns: Ints
    wake_ns: Ints
    on_ns: Ints
    waker: Ints

    def __len__(self) -> int:
        return len(self.tid)

    @property
    def asleep(self) -> NDArray[np.bool_]:
        return self.wake_ns > 0

    @property
    def runnable_ns(self) -> Ints:
        """From when on it could have run."""
        return np.where(self.asleep, self.wake_ns, self.off_ns)

    def rows(self, rows: Ints) -> Sleeps:
        return Sleeps(**{name: column[rows] for name, column in vars(self).items()})


def sleeps_of(window: Window) -> Sleeps:
    """One row per sched_resume event."""
    resumes = window.columns("sched_resume", "subject_tid", "off_ns", "wake_ns", "waker_tid")
    return Sleeps(
        tid=resumes["subject_tid"],
        off_ns=resumes["off_ns"],
        wake_ns=resumes["wake_ns"],
        on_ns=resumes["time_ns"],
        waker=resumes["waker_tid"],
    )


def run_queue(sleeps: Sleeps, owner: Ints) -> Spans:
    """Runnable without a CPU: from the wake-up (or the preemption) to running."""
    spans = SpanList()
    spans.add(owner, "wakeup.runqueue", sleeps.runnable_ns, sleeps.on_ns)
    return spans.collect()


# Of each rank, whether its end wakes who sleeps.
CAUSE = np.array([rank.wakes for rank in STACK])


def interrupts(sleeps: Sleeps, owner: Ints, spans: Spans) -> tuple[Spans, Ints]:
    """From the last completion inside a sleep to the wake-up that it caused.

    ``owner``: the owner of each sleep among the owners of ``spans``. Also returns,
    for each sleep, when that completion was (-1: none was seen).
    """
    cause = spans.where(CAUSE[spans.rank])
    found = AsOf(cause.owner, cause.end_ns).at_or_before(owner, sleeps.wake_ns)
    ended = at(cause.end_ns, found)
    ended = np.where(sleeps.asleep & (ended >= sleeps.off_ns), ended, -1)
    result = SpanList()
    result.add(np.where(ended >= 0, owner, -1), "wakeup.interrupt", ended, sleeps.wake_ns)
    return result.collect(), ended
