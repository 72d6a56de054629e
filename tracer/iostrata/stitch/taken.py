# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's requests in, from when to when a worker had each of them out.

What follows in a chain (IOSQE_IO_LINK), or behind others (IOSQE_IO_DRAIN), is submitted with
them, but begins when they are complete: it is handed over then, or the worker that completed
the one before goes on with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, distinct, one_of
from iostrata.stitch.completions import UNLINKED, completion_of, completions
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.window import Window, whole
from iostrata.trace.layout import THREAD_WORKER


@dataclass(frozen=True, eq=False)
class Taken:
    """One row a request.

    ``begin_ns``: from when on it was somebody's turn to run it; ``end_ns``: complete, -1: not
    seen. ``worker``: the kernel's thread that completed it, if it was handed to one; else -1.
    """

    worker: Ints
    begin_ns: Ints
    end_ns: Ints


def taken_up(window: Window, key: Ints, submit_ns: Ints) -> Taken:
    """When the requests with these keys, submitted at these times, were taken up.

    They are all: of one without a completion, what follows is of the next one with its key.
    """
    completed = completions(window, "request_key", "tid")
    tid, time = completed["tid"], completed["time_ns"]
    done = completion_of(key, submit_ns, completed["request_key"], time)
    end, worker = at(time, done), at(tid, done)
    worker = np.where(one_of(worker, workers_of(window)), worker, -1)
    given = handed_at(window, key, end)
    # Also what is not recorded, that this is linked behind.
    others = window.columns(UNLINKED, "tid")
    tid, time = np.append(tid, others["tid"]), np.append(time, others["time_ns"])
    before = AsOf(tid, time).at_or_before(worker, end - 1)
    begin = np.maximum(given, at(time, before))
    # Neither: it was complete where it was submitted, or nothing tells.
    known = begin >= submit_ns
    return Taken(np.where(known, worker, -1), np.where(known, begin, submit_ns), end)


def handed_at(window: Window, key: Ints, time_ns: Ints) -> Ints:
    """When requests were handed over to io_uring's workers last before a time, -1: never."""
    handed = window.columns("io_uring_queue_async_work", "request_key")
    found = AsOf(handed["request_key"], handed["time_ns"]).at_or_before(key, time_ns)
    return at(handed["time_ns"], found)


def untold_in(window: Window) -> NDArray[np.bool_]:
    """Which of what was handed over to workers, in the window's order, none said that it was at."""
    handed = window.columns("io_uring_queue_async_work", "request_key")
    said = window.columns("io_uring_work", "request_key")
    key, time_ns = handed["request_key"], handed["time_ns"]
    row = AsOf(said["request_key"], said["time_ns"]).at_or_after(key, time_ns)
    said_ns = at(said["time_ns"], row)
    found: NDArray[np.bool_] = (said_ns < 0) | (said_ns >= AsOf(key, time_ns).following())
    return found


def workers_of(window: Window) -> Ints:
    """The threads that run what is handed over."""
    threads = whole(window.trace).once(kinds_of)
    # The one that submits (SQPOLL) is no worker: it completes what it did not run.
    submits = window.columns("io_uring_submit_req", "tid")["tid"]
    return distinct(threads.tid[(threads.kinds == THREAD_WORKER) & ~one_of(threads.tid, submits)])
