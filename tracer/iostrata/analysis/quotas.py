# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a machine with writes in, how often quotas stopped who wrote beside those out.

Since Linux e1fad12dcb66 ("sched/fair: Switch to task based throttle model", in v6.18) a quota that
is used up stops a thread when its call is over: who waited for a write waited for that, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from iostrata.analysis.prepared import Top
from iostrata.columns import Ints, Union, columns_of, distinct, one_of, pair_key
from iostrata.model import NotObserved
from iostrata.units import duration

OF_NOTE: Final = 0.01
"""Of the recording's time, or of that of all writes."""


def quotas(tops: Sequence[Top], all_ns: int, *, several: bool) -> Iterator[NotObserved]:
    """A line for each machine where it is worth one. ``all_ns``: what all writes took together."""
    for top in tops:
        stopped = stops_of(top)
        stopped_ns, trace = int(stopped.sum()), top.trace
        if stopped_ns >= OF_NOTE * min(trace.end_ns - trace.begin_ns, all_ns) > 0:
            what = (
                f"stopped threads that write {len(stopped)} times beside their writes, as behind a "
                f"call, for {duration(stopped_ns)} in all: in no latency (see throttle.cpu)"
            )
            machines = (trace.machine,) if several else ()
            yield NotObserved("CPU quota", what, "", machines)


def stops_of(top: Top) -> Ints:
    """For how long each stop was, without what of it is in a request's latency, ns: of those that
    were not in one all along."""
    told = columns_of(top.trace.points["sched_throttled"], "subject_tid", "since_ns")
    tid, end_ns = told["subject_tid"], told["time_ns"]
    if not len(tid):
        return end_ns
    ran = columns_of(top.trace.points["sched_resume"], "subject_tid")
    # Beside what a thread did in a call is when it ran again there.
    in_call = one_of(pair_key(end_ns, tid), pair_key(ran["time_ns"], ran["subject_tid"]))
    pieces = top.pieces
    stops = np.flatnonzero(~in_call & one_of(tid, distinct(pieces.tid)))
    tid, begin_ns, end_ns = tid[stops], told["since_ns"][stops], end_ns[stops]
    took_ns = end_ns - begin_ns
    requests = np.flatnonzero((pieces.request_key != 0) & one_of(pieces.tid, distinct(tid)))
    for one in distinct(pieces.tid[requests]).tolist():
        own = requests[pieces.tid[requests] == one]
        under_way = Union(pieces.begin_ns[own], pieces.end_ns[own])
        mine = tid == one
        took_ns[mine] -= under_way.within(begin_ns[mine], end_ns[mine])
    return took_ns[took_ns > 0]
