# SPDX-License-Identifier: Apache-2.0
"""Live: a recording that is being made in, what happened since the last look out.

The same ``analyse`` as for any recording, of its last seconds. What it costs is
bounded: where a second holds more events than half of ``MOST_EVENTS``, only so many are
analysed, now of its begin, now of its end (a load may be as regular as the looks are), and the
interval says how much was skipped, and of all of it how many calls there were of which kind. As
many are before them: without those, the writes would be the shorter ones, as many of the others
began before.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from iostrata.analysis import analyse
from iostrata.attribute import select
from iostrata.columns import Ints
from iostrata.errors import NothingToAnalyse
from iostrata.live.ended import DURABLE, EARLIER, KEPT, Ended, UnderWay
from iostrata.live.interval import Interval
from iostrata.model import Breakdown
from iostrata.recording import RecordedMachine, Recording
from iostrata.trace import Follower, Snapshot, Trace
from iostrata.trace.layout import UNSEEN_HANGING

SPAN_NS: Final = 3_000_000_000
"""Writes of up to two seconds are seen whole, if there are not too many events."""
MOST_EVENTS: Final = 30_000
LEAST_EVENTS: Final = 5_000
EVENLY: Final = (5**0.5 - 1) / 2
"""Its multiples' fractions are spread over all places, however few there are."""
LOOK_NS: Final = 60_000_000
"""Of CPU time, what a look may take: where many wait for one another, an event takes much more."""


@dataclass(frozen=True)
class Moving(Recording):
    """A recording of which only a part was read, already."""

    latest: tuple[Trace, ...] = ()

    def traces(self, jobs: int = 1) -> list[Trace]:
        return list(self.latest)


class Latest:
    """What a recorder wrote into ``machine``'s directory of ``path`` since the last interval."""

    def __init__(self, path: Path, machine: RecordedMachine) -> None:
        self._path, self._machine = path, machine
        self._follower = Follower(path / machine.directory, machine.name, KEPT)
        self._under_way = UnderWay()
        self._ended = np.zeros(0, DURABLE)
        self._looks = 1
        self._events = MOST_EVENTS

    def close(self) -> None:
        self._follower.close()

    def interval(self) -> Interval | None:
        """None: nothing new. Errors: RecordingError, OSError."""
        snapshot = self._follower.snapshot(SPAN_NS, self._events, self._looks * EVENLY % 1)
        if snapshot is None:
            return None
        self._looks += 1
        before_ns = time.process_time_ns()
        rows = self._under_way.ended(snapshot.kept)
        ended, self._ended = Ended(rows, self._ended, snapshot), rows
        breakdown, kinds = self._analysed(snapshot, ended)
        self._events = affordable(self._events, time.process_time_ns() - before_ns)
        return Interval(
            begin_ns=snapshot.since_ns,
            end_ns=snapshot.end_ns,
            skipped_ns=snapshot.skipped_ns,
            skipped_events=snapshot.skipped_events,
            events=snapshot.events,
            each=snapshot.each,
            seen_ns=snapshot.since_ns - snapshot.begin_ns,
            breakdown=breakdown,
            ended=ended.kinds(),
            kinds=kinds,
            lost=snapshot.trace.lost_by_point,
            hanging=_hanging(snapshot.trace),
        )

    def _analysed(self, snapshot: Snapshot, known: Ended) -> tuple[Breakdown | None, Ints]:
        """The writes of the interval, and their kinds; those that began before the trace is whole
        are not known."""
        try:
            found = analyse(Moving(self._path, (self._machine,), latest=(snapshot.trace,)))
        except NothingToAnalyse:
            return None, np.zeros(0, np.int64)
        kinds = known.kind_of(found.writes)
        ended, began = found.writes.end_ns, found.writes.begin_ns
        mine = (ended > snapshot.since_ns) & (ended <= snapshot.end_ns) & (kinds != EARLIER)
        rows = np.flatnonzero(mine & (began >= snapshot.begin_ns))
        return (select(found, rows) if len(rows) else None), kinds[rows]


def _hanging(trace: Trace) -> int:
    """As the recorder told last."""
    told = trace.points["unseen"].integers("kind", "count")
    counts = told["count"][told["kind"] == UNSEEN_HANGING].tolist()
    return counts[-1] if counts else 0


def affordable(events: int, took_ns: int) -> int:
    """How many the next look is at, if so many took so long: never many more than this one."""
    wanted = min(events * LOOK_NS // max(took_ns, 1), events + events // 4)
    return max(LEAST_EVENTS, min(MOST_EVENTS, wanted))
