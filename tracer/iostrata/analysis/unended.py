# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, for how long what had not ended with it had been going on, if nothing
that ended took as long, out."""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.columns import columns_of, one_of
from iostrata.model import NotObserved
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_VMM
from iostrata.units import duration


def unended(trace: Trace) -> Iterator[NotObserved]:
    """A call that hangs is in no latency, although none may be as long."""
    cut = columns_of(trace.points["syscall_cut"], "enter_ns", "tgid")
    threads = columns_of(trace.points["thread"], "tgid", "kind")
    # What is done for others is theirs.
    serving = threads["tgid"][threads["kind"] >= THREAD_VMM]
    mine = (cut["enter_ns"] > 0) & ~one_of(cut["tgid"], serving)
    if not mine.any():
        return
    longest_ns, ended_ns = int((cut["time_ns"] - cut["enter_ns"])[mine].max()), 0
    for calls in trace.points["syscall"].pieces("enter_ns"):
        ended_ns = max(ended_ns, int((calls["time_ns"] - calls["enter_ns"]).max(initial=0)))
    if longest_ns > ended_ns:
        what = f"one had for {duration(longest_ns)}, longer than any that ended"
        yield NotObserved("calls that still ran at the end", f"{what}: it is in no latency", "")
