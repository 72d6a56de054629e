# SPDX-License-Identifier: Apache-2.0
"""Pipeline: some of a recording's writes in, what was left over while they slept out (law 9).

Whoever looks at single writes is told what may have been theirs, and is in none of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.left_out import below
from iostrata.analysis.leftovers import Audits, left_over
from iostrata.analysis.prepared import Prepared, Top
from iostrata.columns import Ints, Union, overlapping
from iostrata.crew import each
from iostrata.hops import Lifted, lift
from iostrata.model import Quality
from iostrata.stitch import Audit, Idle

Place = tuple[int, int]
"""Which of the tops, which of its windows."""


@dataclass(frozen=True, eq=False)
class Beside:
    """What was left over while some of the writes (``rows``) slept, and only then.

    Their windows alone are stitched; with their neighbours, in whose writes it may be, if anything
    is to be told. What comes of a window that somebody had stitched for something else is put into
    ``audits``; those that are not there are stitched in the end.
    """

    found: Prepared
    rows: Ints
    audits: dict[Place, list[Audit]] = field(default_factory=dict)
    _asked: dict[int, _Asked] = field(default_factory=dict)

    def lift(self, place: Place) -> tuple[Lifted, list[Audit]]:
        """A window as it is stitched, and what is to be put into ``audits`` of it."""
        number, window = place
        top, asked = self.found.tops[number], self._of(number)
        section = top.windows[window]
        mine = section.told(asked.mine, nothing=False)
        lifted = lift(self.found.path.graph, top.node, section.rows, told=mine)
        return lifted, [
            replace(audit, idle=_within(audit.idle, asked.times[audit.machine]))
            for audit in lifted.audits
        ]

    def told(self, quality: Quality, jobs: int = 1) -> Quality:
        """``quality``, with what was left over. ``jobs``: by so many processes."""
        self._add(self._holding(), jobs)
        left = left_over(self._every())
        if left[0] and self._add(self._holding(neighbours=True), jobs):
            left = left_over(self._every())
        over, _, asleep_ns = left
        latency_ns = max(int(self.found.writes.latency_ns[self.rows].sum()), 1)
        return replace(quality, left_over=over, left_over_share=asleep_ns / latency_ns)

    def _of(self, number: int) -> _Asked:
        if number not in self._asked:
            self._asked[number] = _asked(self.found, self.found.tops[number], self.rows)
        return self._asked[number]

    def _holding(self, *, neighbours: bool = False) -> Iterator[Place]:
        """The windows that hold any of the writes."""
        for number, top in enumerate(self.found.tops):
            if not len(top.units_of(self.rows)):
                continue
            mine = self._of(number).mine
            holding = np.array([one.told(mine, nothing=False).any() for one in top.windows])
            if neighbours:
                holding |= np.append(holding[1:], False) | np.append(False, holding[:-1])
            yield from ((number, window) for window in np.flatnonzero(holding).tolist())

    def _add(self, places: Iterator[Place], jobs: int) -> bool:
        """Whether there was any that was not there yet."""
        missing = [place for place in places if place not in self.audits]
        every = each(lambda place: self.lift(place)[1], missing, jobs)
        self.audits.update(zip(missing, every, strict=True))
        return bool(missing)

    def _every(self) -> Audits:
        return Audits([*chain.from_iterable(self.audits[place] for place in sorted(self.audits))])


@dataclass(frozen=True, eq=False)
class _Asked:
    """Of a top. ``mine``: which of its pieces are those writes'; ``times``: theirs, by machine."""

    mine: NDArray[np.bool_]
    times: dict[str, Union]


def _asked(found: Prepared, top: Top, rows: Ints) -> _Asked:
    pieces = top.pieces
    mine = np.isin(pieces.unit, top.units_of(rows))
    times = {
        trace.machine: Union(begin_ns, end_ns)
        for trace, begin_ns, end_ns in below(
            found.path.graph, top.trace, pieces.begin_ns[mine], pieces.end_ns[mine]
        )
    }
    return _Asked(mine, times)


def _within(idle: Idle, times: Union) -> Idle:
    """As far as it is within those times."""
    one, other = np.zeros(len(idle), np.int64), np.zeros(len(times.begins), np.int64)
    row, within = overlapping(one, idle.begin_ns, idle.end_ns, other, times.begins, times.ends)
    return Idle(
        idle.device_key[row],
        idle.stacked[row],
        np.maximum(idle.begin_ns[row], times.begins[within]),
        np.minimum(idle.end_ns[row], times.ends[within]),
    )
