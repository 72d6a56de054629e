# SPDX-License-Identifier: Apache-2.0
"""Losses: what the streams and the recorder's own events say is missing to windows of time.

A window is never too narrow. A packet tells how many events were refused since the one before it,
and of older recorders that is by when it was written: its last event may be older than the last
refusal, which the recorder's next ``loss`` event that knows of them bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, Union, at, distinct, meets, order_of
from iostrata.foreign import shown
from iostrata.trace import layout
from iostrata.trace.facts import device_numbers
from iostrata.trace.points import Points
from iostrata.trace.stream import (
    RECORDER_CPU,
    SINCE_BEGIN,
    UNKNOWN_COUNT,
    UNKNOWN_CPU,
    UNTIL_END,
    Gap,
    Stream,
)
from iostrata.units import duration

UNKNOWN_POINT = "unknown"
# What each table of the recorder is of, and how one of them is named.
NO_ROOM = "no room for some "
TABLES: Mapping[int, tuple[str, Callable[[int], str]]] = {
    layout.TABLE_THREADS: ("threads", str),
    layout.TABLE_DEVICES: ("devices", device_numbers),
}
# What is younger is not written yet (bpf/record/ring.c).
HELD_BACK_NS = 10_000_000
# How the names begin of programs that only tell when a machine below is asked, and answers.
TO_BELOW: Final = b"virtio_"
# Of an event that was begun and never ended, the recorder knows no more.
NO_POINT = 0

Ints = NDArray[np.int64]
NO_RECORDER = "recorder: missing or empty: what was lost is not known"


@dataclass(frozen=True, eq=False)
class Losses:
    """Windows in which events of a CPU are missing, in order of ``begin_ns``.

    int64 columns; ends included. ``count`` -1: nobody knows how many (a packet
    is damaged or missing). ``cpu`` -1: any of them; 65535: the recorder's own
    stream, which holds no event of a write.
    """

    begin_ns: Ints
    end_ns: Ints
    cpu: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.begin_ns)

    def touch(self, begin_ns: Ints, end_ns: Ints, *, untold: bool = False) -> NDArray[np.bool_]:
        """Into which of some times one may fall that holds events of writes.

        ``untold``: only of those of which nobody knows how many, and so not what.
        """
        some = self.cpu != RECORDER_CPU
        if untold:
            some &= self.count == UNKNOWN_COUNT
        return meets(begin_ns, end_ns, self.begin_ns[some] - 1, self.end_ns[some] + 1)

    @cached_property
    def apart(self) -> Union:
        """As above, none of which meets another."""
        some = self.cpu != RECORDER_CPU
        return Union(self.begin_ns[some] - 1, self.end_ns[some] + 1)

    def begun_by(self, time_ns: Ints) -> Ints:
        """How many had begun by each of some times, of those that are apart from one another."""
        return np.searchsorted(self.apart.begins, time_ns, side="right")

    def over_by(self, time_ns: Ints) -> Ints:
        """How many of these were over before each of some times."""
        return np.searchsorted(self.apart.ends, time_ns)

    def next(self, time_ns: Ints) -> Ints:
        """When the first began after each of some times; ``NEVER``: there is none."""
        return np.append(self.apart.begins, NEVER)[self.begun_by(time_ns)]

    def around(self, begin_ns: Ints, end_ns: Ints) -> tuple[int, int]:
        """Since when, and until when, none touches what is around those of some times that none
        touches; 0 and ``NEVER``: all that there is."""
        free = ~self.touch(begin_ns, end_ns)
        if not free.any():
            return 0, NEVER
        begins, ends = self.apart.begins, self.apart.ends
        before = ends[ends < begin_ns[free].min()]
        behind = begins[begins > end_ns[free].max()]
        return int(before.max(initial=0)), int(behind.min(initial=NEVER))


@dataclass(frozen=True, eq=False)
class Refused:
    """What ``loss`` events tell, in order of time: events refused since the one before."""

    time_ns: Ints
    cpu: Ints
    point: Ints
    count: Ints

    def total(self, cpu: int) -> int:
        return int(self.count[self.cpu == cpu].sum())

    def known_at(self, cpu: int, total: int) -> int:
        """When a CPU had refused at least so many, at the latest."""
        mine = self.cpu == cpu
        index = int(np.searchsorted(np.cumsum(self.count[mine]), total))
        times = self.time_ns[mine]
        return int(times[index]) if index < len(times) else UNTIL_END


@dataclass(frozen=True)
class Cut:
    """How the trace ends, if not as the recorder ends it."""

    gaps: tuple[Gap, ...] = ()
    damage: tuple[str, ...] = ()


def read_refused(loss: Points) -> Refused:
    columns = loss.columns("time_ns", "cpu", "lost_point", "lost_count")
    time_ns, cpu, point, so_far = (column.astype(np.int64) for column in columns.values())
    order = order_of(cpu, point, time_ns)
    count = np.diff(so_far[order], prepend=0)
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(cpu[order]) != 0) | (np.diff(point[order]) != 0)
    count[first] = so_far[order][first]
    back = order_of(time_ns[order])
    order = order[back]
    return Refused(time_ns[order], cpu[order], point[order], count[back])


def read_cut(
    points: Mapping[str, Points], streams: list[Stream], machine_cpus: object, begin_ns: int
) -> Cut:
    """Whether all events that the recorder last counted are there, and no others."""
    if not any(stream.cpu == RECORDER_CPU and stream.packet_count for stream in streams):
        return Cut((), (NO_RECORDER,))
    recorder, end = points["recorder"], points["end"]
    if not len(recorder):
        return Cut()
    own = [stream for stream in streams if stream.cpu != RECORDER_CPU]
    there = sum(stream.event_count for stream in own)
    missing = int(recorder["event_count"][-1]) - there
    # An older one does not tell of its end.
    killed = missing < 0 or (end.known and not len(end))
    if not missing and not killed:
        return Cut()
    whole_ns = whole_until(recorder, points["clock_sample"], own)
    ends = {stream.cpu: stream.end_ns for stream in own}
    cpus = range(machine_cpus if isinstance(machine_cpus, int) else 0)
    gaps = [Gap(max(ends.get(cpu, SINCE_BEGIN), whole_ns), UNTIL_END, cpu, UNKNOWN_COUNT)
            for cpu in sorted({*cpus, *ends})]  # fmt: skip
    if any(gap.count == UNKNOWN_COUNT for stream in streams for gap in stream.gaps):
        return Cut(tuple(gaps))
    since_ns = max(0, min((gap.begin_ns for gap in gaps), default=begin_ns) - begin_ns)
    why = []
    if killed:
        why.append(
            "the recorder still runs, was killed, or could write no more (a full disk): "
            f"from {duration(since_ns)} on, events may be missing"
        )
    # Of one that still runs, what it counted last may not be written yet.
    if missing > 0 and not (killed and _count_before(recorder) <= there):
        why.append(f"events that the recorder counted are missing: {missing}")
    return Cut(tuple(gaps), tuple(why))


def _count_before(recorder: Points) -> int:
    """How many events the recorder had counted the time before the last."""
    return int(recorder["event_count"][-2]) if len(recorder) > 1 else 0


def whole_until(recorder: Points, clock: Points, streams: list[Stream]) -> int:
    """Until when nothing is missing of any CPU, also of one that has no later packet.

    What a count tells of was read from the rings before it, and what is older than the count
    before it was: each CPU's ring was read to its end in between. All of that was written before
    the count was, so where a file has the count, and the files have as many events, they have
    those.
    """
    time_ns, counted = recorder.integers("event_count").values()
    sampled_ns = clock.integers()["time_ns"]
    # The clock is told first, and not before all is read: what is younger was not counted.
    rows = np.searchsorted(sampled_ns, time_ns, side="right") - 1
    read_ns = np.where(rows >= 0, at(sampled_ns, rows), time_ns)
    there = np.zeros(len(read_ns), np.int64)
    for stream in streams:
        for times in stream.times.values() if stream.in_order else ():
            there += np.searchsorted(times, read_ns.astype(np.uint64), side="right")
    # Behind a count that is not met, others may be by events that came since.
    short = np.flatnonzero(there < counted)
    last = int(short[0]) - 1 if len(short) else len(there) - 1
    # Two counts may be close to each other, after a recorder had no CPU for long.
    return int(min(read_ns[last - 1], time_ns[last] - HELD_BACK_NS)) if last > 0 else SINCE_BEGIN


def find_losses(
    streams: list[Stream],
    refused: Refused,
    missed: Iterable[Missed],
    others: Iterable[Gap],
    begin_ns: int,
    end_ns: int,
    *,
    exact: bool = False,
) -> Losses:
    """Every window, within the time that the trace covers. ``missed``: programs that the kernel
    skipped, on whatever CPU; ``others``: what no stream tells of.

    ``exact``: packets tell when events were lost.
    """
    gaps = [gap for stream in streams for gap in stream.gaps]
    if not exact:
        gaps = [bounded(gap, refused) for gap in gaps]
    gaps += [*late_gaps(streams, refused), *others]
    gaps += [Gap(one.since_ns, one.time_ns, UNKNOWN_CPU, one.hits) for one in missed]

    def within(time_ns: int) -> int:
        return min(max(time_ns, begin_ns), end_ns)

    rows = sorted((within(gap.begin_ns), within(gap.end_ns), gap.cpu, gap.count) for gap in gaps)
    table = np.array(rows, np.int64).reshape(-1, 4)
    return Losses(*np.ascontiguousarray(table.T))


def bounded(gap: Gap, refused: Refused) -> Gap:
    if gap.count == UNKNOWN_COUNT:
        return gap
    return replace(gap, end_ns=max(gap.end_ns, refused.known_at(gap.cpu, gap.total)))


def late_gaps(streams: list[Stream], refused: Refused) -> Iterable[Gap]:
    """What a CPU lost after its last packet, which only the recorder's own stream tells."""
    known = {stream.cpu: stream for stream in streams}
    for cpu in distinct(refused.cpu).tolist():
        stream = known.get(cpu)
        told, since_ns = (stream.discarded, stream.end_ns) if stream else (0, SINCE_BEGIN)
        total = refused.total(cpu)
        if total > told:
            yield Gap(since_ns, UNTIL_END, cpu, total - told, total)


class Missed(NamedTuple):
    """How often the kernel skipped a program, and between which times."""

    since_ns: int
    time_ns: int
    hits: int
    program: bytes


def missed(miss: Points, *, alone: bool = False) -> list[Missed]:
    """``alone``: no machine below is recorded, to which anybody would be followed."""
    columns = [*miss.columns("since_ns", "time_ns", "missed_count").values(), miss["program"]]
    every = map(Missed._make, zip(*(column.tolist() for column in columns), strict=True))
    return [one for one in every if not (alone and one.program.startswith(TO_BELOW))]


def full_tables(full: Points) -> tuple[str, ...]:
    """A line for each table of the recorder that was full: what it had no room for."""
    columns = full.columns("table", "refused_count", "last").values()
    # The last row of a table tells of all before it.
    told = {row[0]: row for row in zip(*(column.tolist() for column in columns), strict=True)}
    return tuple(
        f"{NO_ROOM}{TABLES[table][0]} ({count} times, for {TABLES[table][1](last)} last): "
        "what they did is not recorded"
        for table, count, last in told.values()
        if table in TABLES
    )


def early_end(end: Points) -> tuple[str, ...]:
    """A line if who had started the recorder was gone before the end."""
    if layout.END_ABANDONED not in end["reason"].tolist():
        return ()
    return ("it ends early: who had started the recorder was gone",)


def missed_by_program(missed: Iterable[Missed]) -> dict[str, int]:
    """Hits that the kernel skipped, by ``program:NAME``: no program is taken for a point."""
    counts: Counter[str] = Counter()
    for one in missed:
        counts[f"program:{shown(one.program)}"] += one.hits
    return dict(sorted(counts.items()))


def lost_by_point(
    streams: list[Stream], refused: Refused, points: Mapping[str, int]
) -> dict[str, int]:
    """Events refused, by point; ``unknown`` for those that only packets tell of."""
    names = {NO_POINT: UNKNOWN_POINT} | {number: name for name, number in points.items()}
    counts: dict[str, int] = {}
    for number in distinct(refused.point).tolist():
        count = int(refused.count[refused.point == number].sum())
        if count:
            counts[names.get(number, str(number))] = count
    nameless = sum(max(0, stream.discarded - refused.total(stream.cpu)) for stream in streams)
    if nameless:
        counts[UNKNOWN_POINT] = nameless
    return counts
