# SPDX-License-Identifier: Apache-2.0
"""Live: a recording that is being made in, what happened since the last look out.

The same ``analyse`` as for any recording, of its last seconds. What it costs is
bounded: where a second holds more events than ``MOST_EVENTS``, only its end is
analysed, and the beat says how much was skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from iostrata.analysis import analyse
from iostrata.attribute.selection import select
from iostrata.errors import NothingToAnalyse
from iostrata.live.beat import Beat
from iostrata.model import Breakdown
from iostrata.recording import Machine, Recording
from iostrata.trace.follow import Follower
from iostrata.trace.read import Trace

SPAN_NS: Final = 3_000_000_000
"""Writes of up to two seconds are seen whole, if there are not too many events."""
MOST_EVENTS: Final = 30_000


@dataclass(frozen=True)
class Moving(Recording):
    """A recording of which only a part was read, already."""

    latest: tuple[Trace, ...] = ()

    def traces(self) -> list[Trace]:
        return list(self.latest)


class Latest:
    """What a recorder wrote into ``machine``'s directory of ``path`` since the last beat."""

    def __init__(self, path: Path, machine: Machine) -> None:
        self._path, self._machine = path, machine
        self._follower = Follower(path / machine.directory, machine.name)
        self._until_ns = 0

    def close(self) -> None:
        self._follower.close()

    def beat(self) -> Beat | None:
        """None: nothing new. Errors: RecordingError, OSError."""
        look = self._follower.look(SPAN_NS, MOST_EVENTS)
        if look is None or look.end_ns <= self._until_ns:
            return None
        since_ns = self._until_ns or max(look.begin_ns, look.trace.begin_ns)
        begin_ns = max(since_ns, look.begin_ns)
        self._until_ns = look.end_ns
        return Beat(
            begin_ns=begin_ns,
            end_ns=look.end_ns,
            skipped_ns=begin_ns - since_ns,
            breakdown=self._analysed(look.trace, look.begin_ns, begin_ns, look.end_ns),
            lost=look.trace.lost_by_point,
        )

    def _analysed(
        self, trace: Trace, whole_ns: int, begin_ns: int, end_ns: int
    ) -> Breakdown | None:
        """The writes of the beat; those that began before the trace is whole are not known."""
        try:
            found = analyse(Moving(self._path, (self._machine,), latest=(trace,)))
        except NothingToAnalyse:
            return None
        ended, began = found.writes.end_ns, found.writes.begin_ns
        mine = np.flatnonzero((ended > begin_ns) & (ended <= end_ns) & (began >= whole_ns))
        return select(found, mine) if len(mine) else None
