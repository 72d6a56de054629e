# SPDX-License-Identifier: Apache-2.0
"""Hops: pieces of a process's threads in, beside which its other threads did what nothing ties out.

A daemon may hand on what it was asked for to a pool of threads, and only answer itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Containing, Ints, at, columns_of, one_of, overlapping
from iostrata.stitch import Pieces
from iostrata.trace import Trace


def beside(
    trace: Trace, pieces: Pieces, tgid: Ints, begin_ns: Ints, end_ns: Ints
) -> tuple[Ints, Ints]:
    """Which pieces some times of processes share with a piece of the same process: rows of both."""
    return overlapping(
        _processes(trace, pieces.tid), pieces.begin_ns, pieces.end_ns, tgid, begin_ns, end_ns
    )


def with_others_beside(trace: Trace, pieces: Pieces) -> NDArray[np.bool_]:
    """During which of some pieces a thread of the same process made a call that is in none."""
    calls = columns_of(trace.points["syscall"], "tid", "tgid", "enter_ns")
    tid, tgid, enter, leave = (calls[name] for name in ("tid", "tgid", "enter_ns", "time_ns"))
    known = np.flatnonzero(pieces.tid >= 0)
    own = Containing(pieces.tid[known], pieces.begin_ns[known], pieces.end_ns[known])
    left = np.flatnonzero(
        one_of(tgid, _processes(trace, pieces.tid[known])) & (own.find(tid, enter) < 0)
    )
    found = np.zeros(len(pieces), np.bool_)
    found[beside(trace, pieces, tgid[left], enter[left], leave[left])[0]] = True
    return found


def by_the_unknown(trace: Trace, pieces: Pieces) -> NDArray[np.bool_]:
    """Which pieces are of threads that nothing was seen of before they answered.

    A daemon is looked at from its first answer on, and each thread that it had by then from its
    own; a process that it forks to answer is another one. Of a new thread its first turn is seen.
    """
    threads = columns_of(trace.points["thread"], "subject_tid")
    turns = columns_of(trace.points["sched_resume"], "subject_tid")
    told = AsOf(threads["subject_tid"], threads["time_ns"])
    own = told.at_or_nearest(pieces.tid, np.zeros(len(pieces), np.int64))
    late = (own >= 0) & (at(threads["time_ns"], own) > pieces.begin_ns)
    ran = AsOf(turns["subject_tid"], turns["time_ns"]).at_or_before(pieces.tid, pieces.end_ns)
    found: NDArray[np.bool_] = late & (at(turns["time_ns"], ran) <= pieces.begin_ns)
    return found


def _processes(trace: Trace, tid: Ints) -> Ints:
    """Of threads, -1: it was not told."""
    threads = columns_of(trace.points["thread"], "subject_tid", "tgid")
    told = AsOf(threads["subject_tid"], threads["time_ns"])
    row = told.at_or_nearest(tid, np.zeros(len(tid), np.int64))
    return np.where(row >= 0, at(threads["tgid"], row), -1)
