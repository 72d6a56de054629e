# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a machine with writes in, how often who wrote was stopped beside those out.

Signals (SIGSTOP, what a tracer is told of) and control groups' freezers stop a thread on its way
back to user space, and so do quotas since Linux e1fad12dcb66 ("sched/fair: Switch to task based
throttle model", in v6.18); and there who is to leave its CPU to another leaves it
(exit_to_user_mode_loop of kernel/entry/common.c): who waited for a write waited for that, too.
Where a thread of the kernel's submits for a process (SQPOLL), which is not stopped, the process's
threads collect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.prepared import Top
from iostrata.columns import AsOf, Ints, Union, at, columns_of, distinct, one_of, pair_key
from iostrata.model import NotObserved, Op
from iostrata.trace.layout import (
    STOP_FREEZER,
    STOP_PREEMPTED,
    STOP_QUOTA,
    STOP_SIGNAL,
    THREAD_WORKER,
)
from iostrata.units import duration

OF_NOTE: Final = 0.01
"""Of the recording's time, or of that of all writes."""


class Stop(IntEnum):
    """What stops a thread, as sched_stopped has it."""

    QUOTA = STOP_QUOTA
    SIGNAL = STOP_SIGNAL
    FREEZER = STOP_FREEZER
    PREEMPTED = STOP_PREEMPTED


SAID: Final = {
    Stop.QUOTA: ("CPU quota", ", as behind a call,", " (see throttle.cpu)"),
    Stop.SIGNAL: ("signals", " (SIGSTOP, or who traces them)", ""),
    Stop.FREEZER: ("freezer", " (of a control group)", ""),
    Stop.PREEMPTED: (
        "preemption",
        ", preempted on the way back from them,",
        ", but {each} in the threads' own clocks",
    ),
}
"""The line's name, when or by whom, and where more is told, or what each write has of it."""


def stopped(
    tops: Sequence[Top], op: Op, latency_ns: Ints, *, several: bool
) -> Iterator[NotObserved]:
    """A line for each machine where it is worth one. ``latency_ns``: what each write took; ``op``:
    what these are."""
    all_ns = int(latency_ns.sum())
    for top in tops:
        trace = top.trace
        least_ns = OF_NOTE * min(trace.end_ns - trace.begin_ns, all_ns)
        for stop in SAID:
            took_ns, within_ns = stops_of(top, stop)
            each = f"{duration(int(took_ns.sum()) // len(latency_ns))} a {op.word}"
            if least_ns > 0 and (what := _said(stop, op, each, took_ns, within_ns, least_ns)):
                yield NotObserved(SAID[stop][0], what, "", (trace.machine,) if several else ())


def _said(stop: Stop, op: Op, each: str, took_ns: Ints, within_ns: Ints, least_ns: float) -> str:
    """Of what is worth it; empty: neither is. ``each``: what a write has of it."""
    _, whose, see = SAID[stop]
    see = see.format(each=each)
    parts = []
    for times, where, consequence in (
        (took_ns, f"beside their {op.word}s", f"in no latency{see}"),
        (within_ns, "amid requests", "in whatever row was at work then"),
    ):
        if (total_ns := int(times.sum())) >= least_ns:
            count = f"{len(times)} time{'s' * (len(times) != 1)}"
            parts.append(f"{count} {where}{whose} for {duration(total_ns)} in all: {consequence}")
            whose = ""
    return f"stopped threads that {op.word} " + ", and ".join(parts) if parts else ""


def stops_of(top: Top, stop: Stop) -> tuple[Ints, Ints]:
    """For how long each stop was beside all that is in a latency, and for how long amid requests
    of who was stopped, which went on meanwhile, ns; those that were so at all."""
    tid, begin_ns, end_ns = _quotas(top) if stop is Stop.QUOTA else _others(top, stop)
    if not len(tid):
        return end_ns, end_ns
    pieces = top.pieces
    tid, begin_ns, end_ns = _by_submitter(top, tid, begin_ns, end_ns)
    within_ns = np.zeros_like(begin_ns)
    requests = np.flatnonzero((pieces.request_key != 0) & one_of(pieces.tid, distinct(tid)))
    for one in distinct(pieces.tid[requests]).tolist():
        own = requests[pieces.tid[requests] == one]
        under_way = Union(pieces.begin_ns[own], pieces.end_ns[own])
        mine = tid == one
        within_ns[mine] = under_way.within(begin_ns[mine], end_ns[mine])
    took_ns = end_ns - begin_ns - within_ns
    return took_ns[took_ns > 0], within_ns[within_ns > 0]


def _by_submitter(top: Top, tid: Ints, begin_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """The stops of those who submit themselves, and of processes that a thread of the kernel's
    does for (``tid``): where several of one's threads are stopped at once, that is one stop."""
    own = distinct(top.pieces.tid)
    mine = one_of(tid, own)
    poll = _polls_for(top, own, tid)
    parts = [(tid[mine], begin_ns[mine], end_ns[mine])]
    for one in distinct(poll[~mine & (poll >= 0)]).tolist():
        rows = ~mine & (poll == one)
        found = Union(begin_ns[rows], end_ns[rows])
        parts.append((np.full(len(found.begins), one), found.begins, found.ends))
    whose, begin, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return whose, begin, end


def _polls_for(top: Top, own: Ints, tid: Ints) -> Ints:
    """Which of those who submit (``own``) is the kernel's (SQPOLL) for threads' processes, -1: it
    is none."""
    threads = top.trace.points["thread"].integers("kind", "tgid", "subject_tid")
    subject, process = threads["subject_tid"], threads["tgid"]
    polls = np.flatnonzero((threads["kind"] == THREAD_WORKER) & one_of(subject, own))
    ever, always = np.zeros(len(subject), np.int64), np.zeros(len(tid), np.int64)
    known = AsOf(subject, ever).at_or_before(tid, always)
    # A process's first thread has its number, and need not have been told of.
    of_process = np.where(known >= 0, at(process, known), tid)
    poll = AsOf(process[polls], ever[polls]).at_or_before(of_process, always)
    return at(subject[polls], poll)


def _quotas(top: Top) -> tuple[Ints, Ints, Ints]:
    """Whom one stopped in no call, from when and until when."""
    told = columns_of(top.trace.points["sched_throttled"], "subject_tid", "since_ns")
    tid, end_ns = told["subject_tid"], told["time_ns"]
    if not len(tid):
        return tid, end_ns, end_ns
    ran = columns_of(top.trace.points["sched_resume"], "subject_tid")
    # Beside what a thread did in a call is when it ran again there.
    in_call = one_of(pair_key(end_ns, tid), pair_key(ran["time_ns"], ran["subject_tid"]))
    return tid[~in_call], told["since_ns"][~in_call], end_ns[~in_call]


def _others(top: Top, stop: Stop) -> tuple[Ints, Ints, Ints]:
    told = columns_of(top.trace.points["sched_stopped"], "subject_tid", "since_ns", "by")
    rows = np.flatnonzero(told["by"] == stop)
    if stop is Stop.PREEMPTED and len(rows):
        rows = rows[_behind_writes(top, rows)]
    return told["subject_tid"][rows], told["since_ns"][rows], told["time_ns"][rows]


def _behind_writes(top: Top, rows: Ints) -> NDArray[np.bool_]:
    """Which of those that sched_stopped tells of (rows) were behind a call of one of the writes.

    Where a program may have been skipped since, that of the beginning of another one may have been.
    """
    told = columns_of(top.trace.points["sched_stopped"], "subject_tid", "call_ns")
    tid, call_ns, end_ns = (told[name][rows] for name in ("subject_tid", "call_ns", "time_ns"))
    pieces = top.pieces
    calls = np.flatnonzero((top.write_of_piece() >= 0) & (pieces.request_key == 0))
    of_writes = pair_key(pieces.tid[calls], pieces.begin_ns[calls])
    known = ~top.trace.losses.touch(call_ns, end_ns)
    behind: NDArray[np.bool_] = known & one_of(pair_key(tid, call_ns), of_writes)
    return behind
