# SPDX-License-Identifier: Apache-2.0
"""Live: what passes from a source to the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints
from iostrata.live.ended import Kind
from iostrata.model import Breakdown


@dataclass(frozen=True)
class Interval:
    """The writes that ended from ``begin_ns`` until ``end_ns``; None: there were none.

    ``skipped_ns``: time beside that, and after what was known before, that was not looked at;
    ``skipped_events``: about how many events it had, beside the ``events`` that were looked at.
    ``ended``: the kinds of calls by which writes ended in all that time, looked at or not;
    ``kinds``: of each of the writes, ``UNKNOWN``: of none of these; one of those stands for
    ``each`` so many. ``seen_ns``: writes that took no longer are all there; None: whatever they
    took. ``lost``: events lost so far, by ``machine:point``. ``hanging``: calls that began before
    the recording, and are not over yet.
    """

    begin_ns: int
    end_ns: int
    skipped_ns: int
    skipped_events: int
    events: int
    seen_ns: int | None
    breakdown: Breakdown | None
    lost: Mapping[str, int]
    hanging: int = 0
    each: float = 1.0
    ended: Mapping[int, Kind] = field(default_factory=dict)
    kinds: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def took_ns(self) -> int:
        """Of all, looked at or not."""
        return self.end_ns - self.begin_ns + self.skipped_ns


def weights_of(intervals: Sequence[Interval]) -> list[NDArray[np.float64]]:
    """For how many each write of each interval stands, so that each kind is there as often as it
    was in all of their time."""
    had = kinds_of(intervals)
    looked: Counter[int] = Counter()
    for one in intervals:
        looked.update(one.kinds.tolist())
    found = []
    for one in intervals:
        numbers, place = np.unique(one.kinds, return_inverse=True)
        told = [
            had[number].calls / looked[number] if number in had else one.each
            for number in numbers.tolist()
        ]
        found.append(np.array(told, np.float64)[place])
    return found


def kinds_of(intervals: Sequence[Interval]) -> dict[int, Kind]:
    """All that ended in their time."""
    found: dict[int, Kind] = {}
    for one in intervals:
        for number, kind in one.ended.items():
            before = found.get(number, Kind(0, 0))
            found[number] = Kind(before.calls + kind.calls, before.time_ns + kind.time_ns)
    return found


def unlike_all(intervals: Sequence[Interval]) -> list[Kind]:
    """The kinds of which none of the writes is that were looked at."""
    looked = {number for one in intervals for number in one.kinds.tolist()}
    return [kind for number, kind in kinds_of(intervals).items() if number not in looked]
