# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: threads that are recorded in, what each was at a time out."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, integers, one_of
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_HELPER, THREAD_WORKER

# A worker's name: its pool's (a CPU or a number), its own in that, and which of a CPU's two it is.
WORKER: Final = re.compile(rb"kworker/(u?\d+):\d+(H?)")


def kinds_of(window: Window) -> Kinds:
    """Of the threads of all of its trace."""
    return Kinds(window.trace)


class Kinds:
    """Kinds of threads, as ``enum thread_kind`` of events.h has them.

    ``told``: by thread and time, rows of ``kinds``; ``forgotten``: rows of ``forgotten_at``.
    """

    def __init__(self, trace: Trace) -> None:
        threads = trace.points["thread"]
        self.kinds = integers(threads["kind"])
        self.told = AsOf(integers(threads["subject_tid"]), integers(threads["time_ns"]))
        forgotten = np.flatnonzero(self.kinds == 0)
        self.forgotten_at = integers(threads["time_ns"])[forgotten]
        self.forgotten = AsOf(integers(threads["subject_tid"])[forgotten], self.forgotten_at)
        self._pools = np.full(len(self.kinds), -1)
        helpers = np.flatnonzero(self.kinds == THREAD_HELPER)
        pools: dict[tuple[bytes, ...], int] = {}
        for row, comm in zip(helpers.tolist(), threads["comm"][helpers].tolist(), strict=True):
            if match := WORKER.match(comm):
                self._pools[row] = pools.setdefault(match.groups(), len(pools))

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
