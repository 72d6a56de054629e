# SPDX-License-Identifier: Apache-2.0
"""What is not followed of queues: too many waited at once for a lock, or for a worker of
io_uring's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from iostrata.columns import AsOf, at, columns_of, distinct, in_order, order_of
from iostrata.layers import BEHIND_WORKERS
from iostrata.model import NotObserved
from iostrata.stitch import FOLLOWED, MOST_SLEEPS
from iostrata.trace import Trace


def deep_queues(trace: Trace) -> Iterator[NotObserved]:
    """A line for all that waited while a worker slept more often than is followed."""
    begun = columns_of(trace.points["io_uring_work"], "tid", "request_key")
    handed = columns_of(trace.points["io_uring_queue_async_work"], "request_key")
    order = order_of(handed["time_ns"])
    handed = {name: column[order] for name, column in handed.items()}
    found = AsOf(handed["request_key"], handed["time_ns"])
    since = at(handed["time_ns"], found.at_or_before(begun["request_key"], begun["time_ns"]))
    resumed = columns_of(trace.points["sched_resume"], "subject_tid", "off_ns", "state")
    asleep = resumed["state"] != 0
    deep = 0
    for tid in distinct(begun["tid"]).tolist():
        mine = np.flatnonzero((begun["tid"] == tid) & (begun["request_key"] != 0) & (since >= 0))
        off = in_order(resumed["off_ns"][asleep & (resumed["subject_tid"] == tid)])
        slept = np.searchsorted(off, begun["time_ns"][mine]) - np.searchsorted(off, since[mine])
        deep += int(np.count_nonzero(slept > 2 * MOST_SLEEPS))
    if deep:
        reason = (
            f"{deep} requests of io_uring waited for a worker that slept more than "
            f"{2 * MOST_SLEEPS} times meanwhile: only the first and last {MOST_SLEEPS} are followed"
        )
        yield NotObserved("queues of workers", reason, BEHIND_WORKERS)


def long_queues(beyond: Counter[str], *, several: bool) -> Iterator[NotObserved]:
    """A line for each machine with waits behind more others than are followed: so many."""
    for machine, waits in (+beyond).items():
        what = (
            f"{waits} waits were behind more than {FOLLOWED} others, each of which let the next "
            "one go: what went on before those is not followed"
        )
        yield NotObserved("long queues", what, "unattributed", (machine,) if several else ())
