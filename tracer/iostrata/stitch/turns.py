# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: spans that wait for what only one can have at a time in, who had it meanwhile out.

A CPU has one task at a time, as the scheduler tells. A device may work on many requests,
and does not tell in which order: at each instant the one that was issued first of those
in flight is ahead of all others, and who asked for it is whom the rest is behind. What was
not seen is told of nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Containing, Ints, at, integers, overlapping, ranges
from iostrata.layers import RANK, STACK
from iostrata.model import Who
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.requests import Requests
from iostrata.stitch.spans import Spans
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window
from iostrata.trace import Trace

IDLE: Final = "idle"
QUEUES: Final = np.array([rank.name.endswith("wakeup.runqueue") for rank in STACK])
LOCKS: Final = np.array([rank.name == "lock" for rank in STACK])
DEVICES: Final = np.array([rank.name.startswith("device.") for rank in STACK])
BEFORE_DEVICES: Final = np.array(
    [rank.name.startswith("block.") or rank.name == "lower.queue" for rank in STACK]
)
BEFORE_DEVICES[RANK["block.stacked"]] = False


@dataclass(frozen=True)
class Turns:
    """Who had a place from when to when; those of one place do not overlap. ``who``: a number."""

    place: Ints
    begin_ns: Ints
    end_ns: Ints
    who: Ints


@dataclass(frozen=True)
class Behind:
    """Parts of some spans (``span``: the row) and who is behind them, rows of ``names``.

    Of what is in none of them it is not known.
    """

    span: Ints
    begin_ns: Ints
    end_ns: Ints
    who: Ints
    names: tuple[Who, ...]

    def __len__(self) -> int:
        return len(self.span)


class People:
    """Processes by number, in the order that they were first met."""

    def __init__(self, machine: str, cgroups: Mapping[int, str]) -> None:
        self._machine, self._cgroups = machine, cgroups
        self._numbers: dict[Who, int] = {}

    @property
    def names(self) -> tuple[Who, ...]:
        return tuple(self._numbers)

    def number(self, process: str, cgroup: int) -> int:
        who = Who(self._machine, process, self._cgroups.get(cgroup, ""))
        return self._numbers.setdefault(who, len(self._numbers))

    def of(self, process: NDArray[np.generic], cgroup: Ints) -> Ints:
        """The numbers of many, whose names are bytes."""
        names, name = np.unique(process, return_inverse=True)
        groups, group = np.unique(cgroup, return_inverse=True)
        pairs, pair = np.unique(name * max(len(groups), 1) + group, return_inverse=True)
        numbers = [
            self.number(
                bytes(names[one // len(groups)]).decode(errors="replace"),
                int(groups[one % len(groups)]),
            )
            for one in pairs.tolist()
        ]
        return np.array(numbers, np.int64)[pair]


def told(trace: Trace) -> bool:
    """Whether a recording tells who anybody is."""
    return bool(len(trace.points["task"]) or len(trace.points["sched_ran"]))


@dataclass(frozen=True)
class Waited:
    """What ``Spans.of`` are of: requests; from ``first_sleep`` on sleeps; behind them threads.

    ``root``: of each of the ``bios``, the row of the whole one.
    """

    sleeps: Sleeps
    first_sleep: int
    requests: Requests
    bios: Bios
    root: Ints
    carried: Carried


def behind_of(window: Window, spans: Spans, waited: Waited) -> Behind:
    people = People(window.trace.machine, window.trace.facts.cgroups)
    sleep = np.where(QUEUES[spans.rank], spans.of - waited.first_sleep, -1)
    parts = [
        _during(
            *_waits_for_cpus(window, spans, sleep, waited.sleeps),
            _cpus(window, waited.sleeps, people),
        ),
        _during(*_waits_for_disks(spans, waited.requests), _disks(window, waited, people)),
        _held(window, spans, waited, people),
    ]
    span, begin, end, who = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((begin, span))
    return Behind(span[order], begin[order], end[order], who[order], people.names)


def _during(
    span: Ints, place: Ints, begin_ns: Ints, end_ns: Ints, turns: Turns
) -> tuple[Ints, Ints, Ints, Ints]:
    """Whose turn it was in which part of some waits."""
    row, turn = overlapping(place, begin_ns, end_ns, turns.place, turns.begin_ns, turns.end_ns)
    begin = np.maximum(begin_ns[row], turns.begin_ns[turn])
    end = np.minimum(end_ns[row], turns.end_ns[turn])
    return span[row], begin, end, turns.who[turn]


def _waits_for_cpus(
    window: Window, spans: Spans, sleep: Ints, sleeps: Sleeps
) -> tuple[Ints, Ints, Ints, Ints]:
    """In whose queue each span waited: its row, the CPU, from when to when.

    ``sleep``: the row behind each span, -1: none.
    """
    span = np.flatnonzero(sleep >= 0)
    sleep = sleep[span]
    moves = window.columns("sched_moved", "subject_tid", "from_cpu", "since_ns")
    moved = Containing(sleeps.tid, sleeps.off_ns, sleeps.on_ns).find(
        moves["subject_tid"], moves["time_ns"]
    )
    last = np.zeros(len(sleeps), np.int64)
    known = np.flatnonzero(moved >= 0)
    np.maximum.at(last, moved[known], moves["time_ns"][known])
    stayed = np.maximum(spans.begin_ns[span], last[sleep])
    # Before that in those that it was taken from.
    order = np.argsort(sleep, kind="stable")
    first = np.searchsorted(sleep[order], moved[known], side="left")
    count = np.searchsorted(sleep[order], moved[known], side="right") - first
    again = order[np.repeat(first, count) + ranges(count)]
    move = np.repeat(known, count)
    return (
        np.concatenate([span, span[again]]),
        np.concatenate([sleeps.cpu[sleep], moves["from_cpu"][move]]),
        np.concatenate([stayed, np.maximum(spans.begin_ns[span[again]], moves["since_ns"][move])]),
        np.concatenate(
            [spans.end_ns[span], np.minimum(spans.end_ns[span[again]], moves["time_ns"][move])]
        ),
    )


def _cpus(window: Window, sleeps: Sleeps, people: People) -> Turns:
    """Who had the CPUs. A run that was told before it was over is told again when it is."""
    runs = window.columns("sched_ran", "ran_cpu", "begin_ns", "end_ns", "tgid", "cgroup")
    first, last = np.searchsorted(
        window.trace.points["sched_ran"].time_ns,
        np.array([window.begin_ns, window.end_ns + 1], np.uint64),
    ).tolist()
    process = window.trace.points["sched_ran"].columns("process", begin=first, end=last)["process"]
    process = np.where(runs["tgid"] > 0, process, IDLE.encode())
    who = people.of(process.astype("S16"), runs["cgroup"])
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


def _held(
    window: Window, spans: Spans, waited: Waited, people: People
) -> tuple[Ints, Ints, Ints, Ints]:
    """Which spans waited for a lock that a known process had: all of each."""
    span = np.flatnonzero(LOCKS[spans.rank] & (spans.of >= 0))
    holder = spans.of[span] - waited.first_sleep - len(waited.sleeps)
    who = _who(window, holder, spans.begin_ns[span], people)
    known = np.flatnonzero(who >= 0)
    span = span[known]
    return span, spans.begin_ns[span], spans.end_ns[span], who[known]


def _waits_for_disks(spans: Spans, requests: Requests) -> tuple[Ints, Ints, Ints, Ints]:
    span = np.flatnonzero((DEVICES | BEFORE_DEVICES)[spans.rank] & (spans.of >= 0))
    span = span[spans.of[span] < len(requests.key)]
    disk = requests.device_key[spans.of[span]]
    return span, disk, spans.begin_ns[span], spans.end_ns[span]


def _disks(window: Window, waited: Waited, people: People) -> Turns:
    """Who asked for the request that was ahead of all others of its disk."""
    requests, tid = waited.requests, _asked_by(waited)
    order = np.lexsort((requests.issue_ns, requests.device_key))
    disk, issue = requests.device_key[order], requests.issue_ns[order]
    complete = requests.complete_ns[order]
    # One running maximum for all disks: each one's times are above those of the one before.
    number = np.cumsum(np.append(True, disk[1:] != disk[:-1])[: len(disk)])
    shift = number * (int(complete.max(initial=0)) + 1)
    # Until when all that was issued before was complete; below 0: nothing was.
    done = np.append(0, np.maximum.accumulate(complete + shift))[: len(disk)] - shift
    begin = np.maximum(issue, done)
    who = _who(window, tid[order], issue, people)
    ahead = np.flatnonzero((complete > begin) & (who >= 0))
    idle = np.flatnonzero((issue > done) & (done > 0))
    nobody = np.full(len(idle), people.number(IDLE, 0))
    return Turns(
        np.concatenate([disk[ahead], disk[idle]]),
        np.concatenate([begin[ahead], done[idle]]),
        np.concatenate([complete[ahead], issue[idle]]),
        np.concatenate([who[ahead], nobody]),
    )


def _asked_by(waited: Waited) -> Ints:
    """The thread that asked for each request, -1: not known.

    Of a flush, which the block layer makes itself: who asked for one last.
    """
    requests, bios, root, carried = waited.requests, waited.bios, waited.root, waited.carried
    tid = np.full(len(requests.key), -1)
    tid[carried.request[::-1]] = bios.tid[root[carried.bio[::-1]]]
    flushes, asked = np.flatnonzero(requests.flush), np.flatnonzero(bios.wants_flush)
    last = AsOf(bios.device_key[asked], bios.queue_ns[asked]).at_or_before(
        requests.device_key[flushes], requests.issue_ns[flushes]
    )
    tid[flushes] = at(bios.tid, at(root, at(asked, last)))
    return tid


def _who(window: Window, tid: Ints, time_ns: Ints, people: People) -> Ints:
    """The processes of some threads, -1: not known."""
    found = np.full(len(tid), -1)
    for events, cgroup in _tellings(window):
        told = AsOf(integers(events["subject_tid"]), integers(events["time_ns"]))
        row = told.at_or_before(tid, time_ns)
        rows = np.flatnonzero((row >= 0) & (found < 0))
        found[rows] = people.of(events["process"][row[rows]], cgroup[row[rows]])
    return found


def _tellings(window: Window) -> Iterator[tuple[Mapping[str, NDArray[np.generic]], Ints]]:
    """The events that name threads, the better ones first, and the control groups they name."""
    tasks = window.trace.points["task"]
    if len(tasks):
        columns = tasks.columns("subject_tid", "time_ns", "process", "cgroup")
        yield columns, integers(columns["cgroup"])
    threads = window.trace.points["thread"]
    if len(threads) and "process" in threads.fields:
        columns = threads.columns("subject_tid", "time_ns", "process")
        yield columns, np.zeros(len(threads), np.int64)


def nothing_behind() -> Behind:
    none = np.zeros(0, np.int64)
    return Behind(none, none, none, none, ())
