# SPDX-License-Identifier: Apache-2.0
"""How a lower machine's CLOCK_MONOTONIC relates to an upper one's, and how well that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iostrata.clock.line import Line
from iostrata.model import Ints


@dataclass(frozen=True)
class Alignment:
    """``line``: the lower machine's time in, the upper's out.

    ``source``: ``tsc``, ``exchange`` or ``causality``. ``bound_ns``: the truth
    is at most so far from the line, anywhere between the first and the last
    pair. ``causal_low_ns``/``causal_high_ns``: where causality alone would put
    it, relative to the line and at its widest; None where there are no pairs,
    so that nothing checks the source. ``pairs``: asks and serves that it rests on.
    ``contradiction``: what cannot be true, in one line, or None. ``rivals``: lines that
    nothing tells from this one. ``pid``: the lower machine's process that the upper one is, if the
    source tells, or 0.
    """

    line: Line
    bound_ns: int
    source: str
    causal_low_ns: int | None = None
    causal_high_ns: int | None = None
    pairs: int = 0
    contradiction: str | None = None
    rivals: tuple[Line, ...] = ()
    pid: int = 0

    @property
    def slack(self) -> tuple[int, int]:
        """How far below (negative) and above the line the truth may be."""
        if self.causal_low_ns is None or self.causal_high_ns is None:
            return -self.bound_ns, self.bound_ns
        low, high = max(self.causal_low_ns, -self.bound_ns), min(self.causal_high_ns, self.bound_ns)
        return min(low, 0), max(high, 0)

    @property
    def drift_ppm(self) -> float:
        """How much faster the upper clock runs."""
        return self.line.drift_ppm

    def to_upper(self, times: Ints) -> Ints:
        """Lower times, int64 ns, in the upper clock; order is kept."""
        return self.line(times)

    def to_lower(self, times: Ints) -> Ints:
        """Upper times in the lower clock; within 1 ns the way back of ``to_upper``."""
        return self.line.inverse(times)


SAME: Final = Alignment(Line(0, 0), 0, "being the same")
"""A machine's clock in itself."""
