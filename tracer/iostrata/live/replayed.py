# SPDX-License-Identifier: Apache-2.0
"""Live: a Breakdown in, its writes again at the pace at which they happened out."""

from __future__ import annotations

import numpy as np

from iostrata.attribute import select
from iostrata.live.ended import UNKNOWN
from iostrata.live.interval import Interval
from iostrata.model import Breakdown


class Replayed:
    """``speed``: seconds of the recording that pass in one of ours."""

    def __init__(self, breakdown: Breakdown, speed: float) -> None:
        ended = breakdown.writes.end_ns
        order = np.argsort(ended, kind="stable")
        self._breakdown, self._order, self._ended = breakdown, order, ended[order]
        self._until_ns = int(breakdown.writes.begin_ns.min())
        self._speed = speed

    @property
    def over(self) -> bool:
        return self._until_ns >= int(self._ended[-1])

    def interval(self, seconds: float) -> Interval | None:
        """What so many of our seconds hold; None: the recording is over."""
        if self.over:
            return None
        begin_ns = self._until_ns
        end_ns = min(begin_ns + round(seconds * self._speed * 1e9), int(self._ended[-1]))
        first, last = np.searchsorted(self._ended, (begin_ns, end_ns), side="right")
        self._until_ns = end_ns
        rows = np.sort(self._order[first:last])
        return Interval(
            begin_ns=begin_ns,
            end_ns=end_ns,
            skipped_ns=0,
            skipped_events=0,
            events=0,
            seen_ns=None,
            breakdown=select(self._breakdown, rows) if len(rows) else None,
            kinds=np.full(len(rows), UNKNOWN),
            lost=self._breakdown.quality.lost,
        )
