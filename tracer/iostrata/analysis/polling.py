# SPDX-License-Identifier: Apache-2.0
"""What io_uring's thread in the kernel (SQPOLL) submitted for programs: which threads do that, and
which of their requests were under way at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, integers
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_WORKER

SQ_THREAD: Final = b"iou-sqp-"


def polling_threads(trace: Trace) -> Ints:
    """Thread ids, perhaps more than once."""
    threads = trace.points["thread"]
    # One that was met at its birth had its program's name; no other worker submits anything.
    polls = np.char.startswith(threads["comm"].astype("S16"), SQ_THREAD)
    polls |= integers(threads["kind"]) == THREAD_WORKER
    return integers(threads["subject_tid"])[polls]


def at_once(trace: Trace, tid: Ints, begin_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
    """Which requests such a thread had beside another one of its own.

    It makes no calls and need not sleep: what it did is of the one request that it has, but of
    several nothing tells which it was at, nor which its wake-up was for.
    """
    together = np.zeros(len(tid), np.bool_)
    polled = np.flatnonzero(np.isin(tid, polling_threads(trace)))
    order = polled[np.lexsort((begin_ns[polled], tid[polled]))]
    for thread in np.unique(tid[order]).tolist():
        mine = order[tid[order] == thread]
        begin, end = begin_ns[mine], end_ns[mine]
        # By begin: who meets any that begins later meets the next one, too.
        together[mine[:-1]] |= begin[1:] < end[:-1]
        together[mine[1:]] |= begin[1:] < np.maximum.accumulate(end)[:-1]
    return together
