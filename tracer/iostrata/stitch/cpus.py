# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: waits for CPUs in, who had those meanwhile out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iostrata.columns import Containing, Ints, order_of, ranges
from iostrata.stitch.behind import Behind, Parts, Turns, during, in_one, most_of
from iostrata.stitch.people import IDLE, People, told
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window


def behind_cpus(window: Window, sleeps: Sleeps) -> Behind | None:
    """Who kept some threads from running after each of their sleeps (the span: its row)."""
    if not told(window.trace):
        return None
    people = People(window.trace)
    queues = Queues(window, sleeps, people)
    most = most_of(len(sleeps), lambda: queues.waits(np.arange(len(sleeps))))

    def find(rows: Ints, whose: Ints | None) -> Sequence[Parts]:
        own, place = sleeps.rows(rows), np.arange(len(rows))
        limit = people.limits("cpu.max", own.limit)
        return [
            queues.during(rows, own.released_ns, own.on_ns, most, whose),
            (place, own.runnable_ns, own.released_ns, limit),
        ]

    return Behind(people, find)


class Queues:
    """The CPUs' queues that some threads were in after their sleeps, and who had the CPUs."""

    def __init__(self, window: Window, sleeps: Sleeps, people: People) -> None:
        self._sleeps = sleeps
        self._turns = in_one(_cpus_of(window, sleeps, people))
        moves = window.columns("sched_moved", "subject_tid", "from_cpu", "since_ns")
        moved = Containing(sleeps.tid, sleeps.off_ns, sleeps.on_ns).find(
            moves["subject_tid"], moves["time_ns"]
        )
        known = np.flatnonzero(moved >= 0)
        known = known[order_of(moved[known])]
        self._moved = moved[known]
        self._from_cpu, self._since_ns = moves["from_cpu"][known], moves["since_ns"][known]
        self._time_ns = moves["time_ns"][known]
        self._stayed_ns = np.zeros(len(sleeps), np.int64)
        np.maximum.at(self._stayed_ns, self._moved, self._time_ns)

    def waits(self, sleep: Ints) -> int:
        """In how many queues some waits were, each one's together."""
        return len(sleep) + int(self._moves(sleep)[1].sum())

    def _moves(self, sleep: Ints) -> tuple[Ints, Ints]:
        """Where those of each begin, and how many they are."""
        first = np.searchsorted(self._moved, sleep, side="left")
        return first, np.searchsorted(self._moved, sleep, side="right") - first

    def during(
        self, sleep: Ints, begin_ns: Ints, end_ns: Ints, most: int, whose: Ints | None
    ) -> Parts:
        """Who had the CPUs that some waits were for. ``sleep``: that each was behind (row);
        ``whose``: as in ``Behind.of``."""
        if not len(self._turns.place):
            return during(sleep, sleep, begin_ns, end_ns, self._turns, most)
        stayed = np.maximum(begin_ns, self._stayed_ns[sleep])
        # Before that in those that it was taken from.
        first, count = self._moves(sleep)
        again, move = np.repeat(np.arange(len(sleep)), count), np.repeat(first, count)
        move += ranges(count)
        since = np.maximum(begin_ns[again], self._since_ns[move])
        return during(
            np.append(np.arange(len(sleep)), again),
            np.append(self._sleeps.cpu[sleep], self._from_cpu[move]),
            np.append(stayed, since),
            np.append(end_ns, np.minimum(end_ns[again], self._time_ns[move])),
            self._turns,
            most,
            None if whose is None else np.append(whose, whose[again]),
        )


def _cpus_of(window: Window, sleeps: Sleeps, people: People) -> Turns:
    """Who had the CPUs. A run that was told before it was over is told again when it is."""
    runs = window.columns("sched_ran", "ran_cpu", "begin_ns", "end_ns", "tgid", "cgroup")
    first, last = np.searchsorted(
        window.trace.points["sched_ran"].time_ns,
        np.array([window.begin_ns, window.end_ns + 1], np.uint64),
    ).tolist()
    process = window.trace.points["sched_ran"].columns("process", begin=first, end=last)["process"]
    process = np.where(runs["tgid"] > 0, process, IDLE.encode())
    who = people.of(process.astype("S16"), runs["cgroup"], runs["tgid"])
    order = order_of(runs["ran_cpu"], runs["begin_ns"], -runs["end_ns"])
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
