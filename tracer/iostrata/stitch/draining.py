# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's submissions in, which of them their ring kept out.

What is drained (IOSQE_IO_DRAIN), and what is submitted behind that before it begins, waits until
all before it is complete.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at
from iostrata.stitch.completions import completion_of, completions
from iostrata.stitch.links import submission_of, submissions_in
from iostrata.stitch.opcodes import RWF_OF_DRAINED
from iostrata.stitch.taken import handed_at
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window


def drains_in(window: Window) -> NDArray[np.bool_]:
    """Which of ``submissions_in`` were kept until all before them was complete: what is drained,
    and what is submitted behind that before it begins (io_drain_req of io_uring/io_uring.c)."""
    submitted = submissions_in(window, "request_key", "tid", "rwf")
    flagged: NDArray[np.bool_] = (submitted["rwf"] & RWF_OF_DRAINED) != 0
    if not flagged.any():
        return flagged
    key, time, tid = (submitted[name] for name in ("request_key", "time_ns", "tid"))
    told = completions(window, "request_key")
    done = completion_of(key[flagged], time[flagged], told["request_key"], told["time_ns"])
    handed = handed_at(window, key[flagged], at(told["time_ns"], done))
    last = AsOf(tid[flagged], time[flagged]).at_or_before(tid, time - 1)
    flagged |= at(handed, last) > time
    return flagged


def are_kept(window: Window, requests: Ints) -> NDArray[np.bool_]:
    """Whether pieces that are requests were."""
    kept = window.once(drains_in)
    if not kept.any():
        return np.zeros(len(requests), np.bool_)
    pieces = window.pieces
    row = submission_of(window, pieces.request_key[requests], pieces.begin_ns[requests])
    found: NDArray[np.bool_] = at(kept.astype(np.int64), row) > 0
    return found


def woken_last(sleeps: Sleeps, tid: Ints, since_ns: Ints, until_ns: Ints) -> Ints:
    """When threads that take what is complete were woken last at some times, -1: not meanwhile."""
    asleep = np.flatnonzero(sleeps.asleep)
    wake = sleeps.wake_ns[asleep]
    found = at(wake, AsOf(sleeps.tid[asleep], wake).at_or_before(tid, until_ns))
    return np.where(found >= since_ns, found, -1)
