# SPDX-License-Identifier: Apache-2.0
"""Syncs that may be of more writes, or fewer, than was seen: calls before them were lost, or were
not recorded."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, columns_of, distinct, one_of
from iostrata.stitch import METHOD, Units
from iostrata.trace import UNKNOWN_POINT, Trace

# What tells of writes and syncs: points, and how their programs' names begin.
CALLS: Final = frozenset(
    {UNKNOWN_POINT, "syscall", "io_uring_submit_req", "io_uring_complete",
     "io_uring_cqe_overflow", "aio_submit", "aio_complete"}
)  # fmt: skip
PROGRAMS: Final = tuple(f"program:{name}_" for name in ("syscall", "uring", "aio"))

SYNCS: Final = tuple(
    METHOD[name] for name in ("fdatasync", "fsync", "sync_file_range", "msync", "sync", "syncfs")
)
# How the filter begins that a recording names: of what others write nothing is recorded.
CHOSEN: Final = frozenset({"--pid", "--comm", "--cgroup"})
EVERYBODY: Final = "--all"


def unsure_syncs(trace: Trace, units: Units) -> int:
    """How many of the units a loss may have taken writes of, or the sync before them.

    Of what point a loss is, is known of the whole recording only.
    """
    touched = _calls_touch(trace, units.since_ns, units.end_ns)
    return int(np.count_nonzero(touched))


def headless_syncs(trace: Trace, units: Units) -> NDArray[np.bool_]:
    """Which of the units may have begun with a write of their own thread that a loss has, as that
    was in no call that is told in between, and is seen to write what it makes durable."""
    found = np.zeros(len(units), np.bool_)
    if not len(trace.losses):
        return found
    writers = distinct(units.tid[units.pieces > 1])
    rows = np.flatnonzero(one_of(units.method, SYNCS) & one_of(units.tid, writers))
    calls = columns_of(trace.points["syscall"], "tid")
    begin = units.begin_ns[rows]
    before = AsOf(calls["tid"], calls["time_ns"]).at_or_before(units.tid[rows], begin)
    found[rows] = _calls_touch(trace, at(calls["time_ns"], before), begin)
    return found


def _calls_touch(trace: Trace, begin_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
    calls = any(name in CALLS or name.startswith(PROGRAMS) for name in trace.lost_by_point)
    # What was lost with a part of a stream may be anything.
    return trace.losses.touch(begin_ns, end_ns, untold=not calls)


def partial_syncs(trace: Trace, units: Units) -> int:
    """How many of the units may be of more than was seen, as not all who write are recorded.

    Where all are, of each file (range, file system) the first one: something was written before
    the recording. What a command has made durable is mostly its own: there they are not counted.
    """
    words = str(trace.env.get("filter", "")).split()
    syncs = one_of(units.method, SYNCS)
    if CHOSEN.isdisjoint(words):
        syncs &= (EVERYBODY in words) & (units.since_ns < trace.begin_ns)
    return int(np.count_nonzero(syncs))
