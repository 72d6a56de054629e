# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: threads and control groups of a machine in, who they are out, by number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from iostrata.cgroups import machines_own
from iostrata.columns import AsOf, Ints, at, distinct, integers, one_of, pair_key
from iostrata.foreign import shown
from iostrata.model import UNKNOWN, Crowd, Who
from iostrata.trace import Points, Trace

IDLE: Final = "idle"
NOBODY: Final = -1
"""It is not known who."""
OWN_RUNTIME: Final = -1
"""In place of the control group whose limit it was: the thread's own (SCHED_DEADLINE)."""
STEPS: Final = (1, 5, 25, 100)
"""To so many percent each one's share of a work is told."""
MOST_CROWDS: Final = 400
MOST_KEPT: Final = 256
"""Of so many sets of events whom they name is kept."""

# The kernel's own thread for a virtual machine's network, or disk: a process by itself until
# Linux 6e890c5d5021 ("vhost: use vhost_tasks for worker threads"), in v6.4.
VHOST: Final = re.compile(r"vhost-(\d{1,9})")

Columns = Mapping[str, NDArray[np.generic]]
Members = tuple[tuple[int, int], ...]
"""Who (a number), and how many percent; the most first."""


class People:
    """Processes by number, and crowds of them, in the order that they were first met."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._numbers: dict[Who | Crowd, int] = {}
        self._names: list[Who | Crowd] = []

    @property
    def names(self) -> tuple[Who | Crowd, ...]:
        return tuple(self._names)

    def number(self, name: str, cgroup: int) -> int:
        """Of what is no process: a limit of a group, or nobody."""
        return self._number(Who(self._trace.machine, name, self._path(cgroup)))

    def _path(self, cgroup: int) -> str:
        return self._trace.facts.cgroups.get(cgroup, "")

    def _number(self, who: Who | Crowd) -> int:
        if who not in self._numbers:
            self._numbers[who] = len(self._names)
            self._names.append(who)
        return self._numbers[who]

    def of(self, process: NDArray[np.generic], cgroup: Ints, tgid: Ints) -> Ints:
        """The numbers of many processes, whose names are bytes."""
        return self._numbered(*_named(self._trace, process, cgroup, tgid))

    def _numbered(self, one: Ints, names: Sequence[Who]) -> Ints:
        """The numbers of those who have some names (rows of them)."""
        return np.array([self._number(name) for name in names], np.int64)[one]

    def threads(self, tid: Ints, time_ns: Ints) -> Ints:
        """The processes of some threads at some time."""
        found = np.full(len(tid), NOBODY)
        for telling in _tellings(self._trace):
            rows = np.flatnonzero(found < 0)
            if len(rows):
                whole = len(rows) == len(tid)
                asked = (tid, time_ns) if whole else (tid[rows], time_ns[rows])
                found[rows] = self._told(telling, telling.by_thread.at_or_before(*asked))
        return found

    def _told(self, telling: _Telling, event: Ints) -> Ints:
        """Whom some events name; -1: none does."""
        one = at(telling.same, event)
        present = np.zeros(len(telling.same) + 1, np.bool_)
        present[one] = True
        first = np.flatnonzero(present[:-1])
        numbers = np.full(len(present), NOBODY)
        numbers[first] = self._numbered(*telling.names_of(self._trace, first))
        return at(numbers, one)

    def limits(self, name: str, cgroup: Ints) -> Ints:
        """The limit of that name of each of some groups (0: not known; OWN_RUNTIME)."""
        found = np.full(len(cgroup), NOBODY)
        for group in distinct(cgroup[cgroup != 0]).tolist():
            own = group == OWN_RUNTIME
            number = self.number("SCHED_DEADLINE", 0) if own else self.number(name, group)
            found[cgroup == group] = number
        return found

    def crowds(self, count: int, work: Ints, who: Ints, weight: Ints) -> Ints:
        """Who did each of ``count`` works: rows say how much of a work (-1: of none) was whose.

        To a percent; less exactly where there are very many different crowds. What was a crowd's
        is its members'.
        """
        rows = np.flatnonzero((work >= 0) & (weight > 0))
        of_row, who, part = self._members(who[rows])
        rows = rows[of_row]
        most = len(self._names) + 1
        pair, row = np.unique(work[rows] * most + who + 1, return_inverse=True)
        weights = np.bincount(row, weights=weight[rows] * part, minlength=len(pair))
        works, persons = pair // most, pair % most - 1
        for step in STEPS:
            found = _crowds(works, persons, weights, step)
            if len(set(found.values())) <= MOST_CROWDS:
                break
        numbers = np.full(count, NOBODY)
        for one, crowd in found.items():
            numbers[one] = self._number_of(crowd)
        return numbers

    def _members(self, who: Ints) -> tuple[Ints, Ints, NDArray[np.float64]]:
        """Of each of some processes or crowds (``who``) those that they are: which of them it is,
        a process, and its part."""
        present = distinct(who[who >= 0]).tolist()
        crowds = [(one, name) for one in present if isinstance(name := self._names[one], Crowd)]
        alone = np.flatnonzero(~one_of(who, [one for one, _ in crowds]))
        found = [(alone, who[alone], np.ones(len(alone)))]
        for one, crowd in crowds:
            rows = np.flatnonzero(who == one)
            for member, percent in zip(crowd.members, crowd.percent, strict=True):
                number = NOBODY if member == UNKNOWN else self._number(member)
                found.append((rows, np.full(len(rows), number), np.full(len(rows), percent / 100)))
        row, person, part = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return row, person, part

    def _number_of(self, crowd: Members) -> int:
        if len(crowd) == 1:
            return crowd[0][0]
        members = [UNKNOWN if person == NOBODY else self._names[person] for person, _ in crowd]
        one_by_one = tuple(member for member in members if isinstance(member, Who))
        assert len(one_by_one) == len(crowd), "a crowd is of no crowds"
        return self._number(Crowd(one_by_one, tuple(percent for _, percent in crowd)))


@dataclass(frozen=True, eq=False)
class _Telling:
    """Events of one point that name threads: a row each. ``same``: the first that names the same
    process. ``names``: of those that were asked for until now; in most windows, of the same."""

    by_thread: AsOf
    process: NDArray[np.generic]
    cgroup: Ints
    tgid: Ints
    same: Ints
    names: dict[bytes, tuple[Ints, tuple[Who, ...]]] = field(default_factory=dict)

    def names_of(self, trace: Trace, rows: Ints) -> tuple[Ints, tuple[Who, ...]]:
        """Whom some events name: of each which one, and those."""
        key = rows.tobytes()
        if key not in self.names:
            if len(self.names) == MOST_KEPT:
                self.names.clear()
            some = self.process[rows], self.cgroup[rows], self.tgid[rows]
            self.names[key] = _named(trace, *some)
        return self.names[key]


# Whatever is told of a trace is looked at window by window, and is the same in each.
_TELLINGS: Final[WeakKeyDictionary[Points, tuple[_Telling, ...]]] = WeakKeyDictionary()


def _tellings(trace: Trace) -> tuple[_Telling, ...]:
    """By point, the better ones first."""
    tasks, threads = trace.points["task"], trace.points["thread"]
    if tasks not in _TELLINGS:
        found = []
        if len(tasks):
            columns = tasks.columns("subject_tid", "time_ns", "process", "cgroup", "tgid")
            found.append(_telling(trace, columns, integers(columns["cgroup"])))
        if len(threads) and "process" in threads.fields:
            names = [name for name in ("process", "tgid", "birth") if name in threads.fields]
            columns = threads.columns("subject_tid", "time_ns", *names)
            found.append(_telling(trace, columns, _groups(columns, names, tasks)))
        _TELLINGS[tasks] = tuple(found)
    return _TELLINGS[tasks]


def _telling(trace: Trace, events: Columns, cgroup: Ints) -> _Telling:
    process, tgid = events["process"], integers(events["tgid"])
    one, first = _alike(trace, process, cgroup, tgid)
    return _Telling(
        AsOf(integers(events["subject_tid"]), integers(events["time_ns"])),
        process, cgroup, tgid, first[one],
    )  # fmt: skip


def _named(
    trace: Trace, process: NDArray[np.generic], cgroup: Ints, tgid: Ints
) -> tuple[Ints, tuple[Who, ...]]:
    """Each different process once, and which one each of them is."""
    one, first = _alike(trace, process, cgroup, tgid)
    machines = trace.facts.running_machines(tgid[first])
    names = zip(process[first].tolist(), cgroup[first].tolist(), machines.tolist(), strict=True)
    return one, tuple(
        _who(trace, shown(bytes(name)), group, machine) for name, group, machine in names
    )


def _who(trace: Trace, name: str, cgroup: int, tgid: int) -> Who:
    path = trace.facts.cgroups.get(cgroup, "")
    if match := VHOST.fullmatch(name):
        tgid = int(match[1])
    vm = trace.facts.virtual_machine(tgid, path)
    return Who(trace.machine, name, machines_own(path), vm)


def _alike(
    trace: Trace, process: NDArray[np.generic], cgroup: Ints, tgid: Ints
) -> tuple[Ints, Ints]:
    """The same number for the same process; and the first row of each number."""
    _, name = np.unique(process, return_inverse=True)
    # Of those that are no virtual machine's the number tells nothing.
    machines = trace.facts.running_machines(tgid)
    _, first, one = np.unique(
        pair_key(pair_key(name, machines), cgroup), return_index=True, return_inverse=True
    )
    return one, first


def _groups(threads: Columns, names: Sequence[str], tasks: Points) -> Ints:
    """The groups of threads that are first told of without: which they are found in later.

    0: not known, as no task event follows, or another thread has the number by then.
    """
    group = np.zeros(len(threads["time_ns"]), np.int64)
    if not len(tasks):
        return group
    later = tasks.columns("subject_tid", "time_ns", "process", "tgid", "cgroup")
    tid, time_ns = integers(threads["subject_tid"]), integers(threads["time_ns"])
    of, told_ns = integers(later["subject_tid"]), integers(later["time_ns"])
    task = AsOf(of, told_ns).at_or_after(tid, time_ns)
    rows = np.flatnonzero(task >= 0)
    task = task[rows]
    last = AsOf(tid, time_ns).at_or_before(of[task], told_ns[task])
    same = [threads[name][rows] == threads[name][last] for name in names]
    same += [threads[name][rows] == later[name][task] for name in ("process", "tgid")]
    rows, task = rows[np.all(same, axis=0)], task[np.all(same, axis=0)]
    group[rows] = integers(later["cgroup"])[task]
    return group


def _crowds(works: Ints, persons: Ints, weights: NDArray[Any], step: int) -> dict[int, Members]:
    """Of each work, the percent of each person: rows are in order of the works."""
    first = np.searchsorted(works, works)
    until = np.cumsum(weights)
    until = until - (until - weights)[first]
    whole = np.bincount(first, weights=weights, minlength=len(works))[first]
    steps = 100 // step
    # Rounded as sums, so that they make a hundred.
    upper, lower = np.rint(steps * until / whole), np.rint(steps * (until - weights) / whole)
    percent = (upper - lower).astype(np.int64) * step
    found: dict[int, list[tuple[int, int]]] = {}
    some = np.flatnonzero(percent > 0)
    for work, person, part in zip(
        works[some].tolist(), persons[some].tolist(), percent[some].tolist(), strict=True
    ):
        found.setdefault(work, []).append((person, part))
    return {
        work: tuple(sorted(members, key=lambda member: -member[1]))
        for work, members in found.items()
    }


def told(trace: Trace) -> bool:
    """Whether a recording tells who anybody is."""
    return bool(len(trace.points["task"]) or len(trace.points["sched_ran"]))
