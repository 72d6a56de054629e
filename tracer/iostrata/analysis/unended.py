# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, for how long what did not begin or end in it went on, if nothing that
did took as long, out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from iostrata.columns import Ints, at, columns_of, one_of
from iostrata.model import NotObserved
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_VMM
from iostrata.units import duration

STILL: Final = "calls that still ran at the end"
BEFORE: Final = "calls that began before"


def unended(trace: Trace) -> Iterator[NotObserved]:
    """A call that hangs is in no latency, although none may be as long."""
    cut = columns_of(trace.points["syscall_cut"], "enter_ns", "tgid")
    threads = columns_of(trace.points["thread"], "tgid", "kind")
    # What is done for others is theirs.
    serving = threads["tgid"][threads["kind"] >= THREAD_VMM]
    mine, begun = ~one_of(cut["tgid"], serving), cut["enter_ns"] > 0
    if not mine.any():
        return
    ran = mine & begun
    still_ns = _longest(cut["time_ns"][ran] - cut["enter_ns"][ran])
    ended_ns = cut["time_ns"][mine & ~begun]
    # A loss may have the begin of what ends behind it.
    lost = trace.losses.apart
    last = trace.losses.begun_by(ended_ns) - 1
    since_ns = np.maximum(_watched_ns(trace), np.where(last >= 0, at(lost.ends, last), 0))
    before_ns = _longest(ended_ns - since_ns)
    whole_ns = 0
    for calls in trace.points["syscall"].pieces("enter_ns"):
        whole_ns = max(whole_ns, _longest(calls["time_ns"] - calls["enter_ns"]))
    if still_ns > whole_ns:
        what = f"one had for {duration(still_ns)}, longer than any that ended"
        yield NotObserved(STILL, f"{what}: it is in no latency", "")
    if before_ns > whole_ns:
        what = f"one took at least {duration(before_ns)}, longer than any that began here"
        yield NotObserved(BEFORE, f"{what}: it is in no latency", "")


def _longest(times_ns: Ints) -> int:
    return int(times_ns.max(initial=0))


def _watched_ns(trace: Trace) -> int:
    """Since when every call that begins is seen to; never, where a thread may be in one as it comes
    to be watched.

    The recorder tells of its clock when all of its programs are attached.
    """
    clock = columns_of(trace.points["clock_sample"])["time_ns"]
    joined = {"--cgroup", "--comm"} & {*str(trace.env.get("filter", "")).split()}
    return trace.end_ns if joined else int(clock.min(initial=trace.end_ns))
