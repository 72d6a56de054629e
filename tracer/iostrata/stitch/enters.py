# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls of io_uring_enter in, which of them a completion was waited for in out.

A thread collects what it has submitted. Where the kernel's own thread submits (SQPOLL), a call that
waits names that: it may be of any of the program's threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Containing, Ints, at, columns_of
from iostrata.stitch.window import Columns, Window
from iostrata.trace import Trace
from iostrata.trace.layout import CALL_IO_URING_ENTER

FIELDS: Final = ("tid", "enter_ns", "call", "size_bytes")


@dataclass(frozen=True, eq=False)
class Enters:
    """The calls: thread, begin, end, and whose requests (thread) each may end.

    ``submitter``: the thread itself, or the kernel's that it waited for.
    """

    tid: Ints
    enter_ns: Ints
    end_ns: Ints
    submitter: Ints

    def submitting(self, tid: Ints, time_ns: Ints) -> Ints:
        """The call (row, -1: none) that a thread was in at a time, as it submitted."""
        own = np.flatnonzero(self.submitter == self.tid)
        inside = Containing(self.tid[own], self.enter_ns[own], self.end_ns[own])
        return at(own, inside.find(tid, time_ns))

    def collecting(self, submitter: Ints, time_ns: Ints) -> Ints:
        """The call (row, -1: none) that took what was complete at a time.

        That is the first to return, if it had begun before.
        """
        found = AsOf(self.submitter, self.end_ns).at_or_after(submitter, time_ns)
        waited = (found >= 0) & (at(self.enter_ns, found) <= time_ns)
        return np.where(waited, found, -1)


def enters_of(trace: Trace) -> Enters:
    return _enters(columns_of(trace.points["syscall"], *FIELDS))


def enters_in(window: Window) -> Enters:
    """Those that ended in it."""
    return _enters(window.columns("syscall", *FIELDS))


def _enters(calls: Columns) -> Enters:
    rows = np.flatnonzero(calls["call"] == CALL_IO_URING_ENTER)
    tid, polls = calls["tid"][rows], calls["size_bytes"][rows]
    submitter = np.where(polls > 0, polls, tid)
    return Enters(tid, calls["enter_ns"][rows], calls["time_ns"][rows], submitter)
