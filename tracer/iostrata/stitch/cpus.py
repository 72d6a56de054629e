# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: waits for CPUs in, who had those meanwhile out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import Containing, Ints, ranges
from iostrata.stitch.behind import Behind, Turns, during, in_order, nothing_behind
from iostrata.stitch.people import IDLE, People, told
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window


def behind_cpus(window: Window, sleeps: Sleeps) -> Behind:
    """Who kept some threads from running after each of their sleeps (``span``: its row)."""
    if not told(window.trace):
        return nothing_behind()
    people, row = People(window.trace), np.arange(len(sleeps))
    limited = (row, sleeps.runnable_ns, sleeps.released_ns, people.limits("cpu.max", sleeps.limit))
    waits = cpus_waited_for(window, sleeps.released_ns, sleeps.on_ns, row, sleeps)
    return in_order([during(*waits, cpus_of(window, sleeps, people)), limited], people)


def cpus_waited_for(
    window: Window, begin_ns: Ints, end_ns: Ints, sleep: Ints, sleeps: Sleeps
) -> tuple[Ints, Ints, Ints, Ints]:
    """In whose queue each of some waits was: its row, the CPU, from when to when.

    ``sleep``: of each, the row of the sleeps that it ended.
    """
    moves = window.columns("sched_moved", "subject_tid", "from_cpu", "since_ns")
    moved = Containing(sleeps.tid, sleeps.off_ns, sleeps.on_ns).find(
        moves["subject_tid"], moves["time_ns"]
    )
    last = np.zeros(len(sleeps), np.int64)
    known = np.flatnonzero(moved >= 0)
    np.maximum.at(last, moved[known], moves["time_ns"][known])
    stayed = np.maximum(begin_ns, last[sleep])
    # Before that in those that it was taken from.
    order = np.argsort(sleep, kind="stable")
    first = np.searchsorted(sleep[order], moved[known], side="left")
    count = np.searchsorted(sleep[order], moved[known], side="right") - first
    again = order[np.repeat(first, count) + ranges(count)]
    move = np.repeat(known, count)
    return (
        np.concatenate([np.arange(len(sleep)), again]),
        np.concatenate([sleeps.cpu[sleep], moves["from_cpu"][move]]),
        np.concatenate([stayed, np.maximum(begin_ns[again], moves["since_ns"][move])]),
        np.concatenate([end_ns, np.minimum(end_ns[again], moves["time_ns"][move])]),
    )


def cpus_of(window: Window, sleeps: Sleeps, people: People) -> Turns:
    """Who had the CPUs. A run that was told before it was over is told again when it is."""
    runs = window.columns("sched_ran", "ran_cpu", "begin_ns", "end_ns", "tgid", "cgroup")
    first, last = np.searchsorted(
        window.trace.points["sched_ran"].time_ns,
        np.array([window.begin_ns, window.end_ns + 1], np.uint64),
    ).tolist()
    process = window.trace.points["sched_ran"].columns("process", begin=first, end=last)["process"]
    process = np.where(runs["tgid"] > 0, process, IDLE.encode())
    who = people.of(process.astype("S16"), runs["cgroup"], runs["tgid"])
    order = np.lexsort((-runs["end_ns"], runs["begin_ns"], runs["ran_cpu"]))
    cpu, begin = runs["ran_cpu"][order], runs["begin_ns"][order]
    new = np.append(True, (cpu[1:] != cpu[:-1]) | (begin[1:] != begin[:-1]))[: len(order)]
    order = order[new]
    idle = np.flatnonzero(sleeps.idle_ns > 0)
    nobody = np.full(len(idle), people.number(IDLE, 0))
    return Turns(
        np.concatenate([runs["ran_cpu"][order], sleeps.cpu[idle]]),
        np.concatenate([runs["begin_ns"][order], sleeps.idle_ns[idle]]),
        np.concatenate([runs["end_ns"][order], sleeps.on_ns[idle]]),
        np.concatenate([who[order], nobody]),
    )
