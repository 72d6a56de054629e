# SPDX-License-Identifier: Apache-2.0
"""One clock's times in, another's out: a straight line in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from iostrata.model import Ints

MAX_DRIFT_PPM = 500
"""No two clocks are taken to drift apart faster: by less than that the kernel corrects one for NTP
(MAXFREQ of its ntp_adjtime), and crystals differ by a tenth of it."""
DRIFT_BITS = 44
"""A drift's fraction: one unit is 2.5 ns a day."""
LOW_BITS = 24
"""So many of a time's are multiplied apart, so that neither product needs more than 64."""


@dataclass(frozen=True)
class Line:
    """``time + offset_ns + (time - origin_ns) * drift / 2**44``, rounded down.

    ``origin_ns``: in the clock that goes in; ``offset_ns``: what the other is
    ahead there. Never falls; exact for 100 days on both sides of the origin.
    """

    origin_ns: int
    offset_ns: int
    drift: int = 0

    @classmethod
    def through(cls, times: Ints, images: Ints) -> Self:
        """The line that takes the first of two different times to its image, and the second."""
        (begin, end), (first, last) = times.tolist(), images.tolist()
        gain = (last - first) - (end - begin)
        return cls(begin, first - begin, (gain << DRIFT_BITS) // (end - begin))

    @classmethod
    def drifting(cls, origin_ns: int, offset_ns: int, drift_ppm: int) -> Self:
        return cls(origin_ns, offset_ns, (drift_ppm << DRIFT_BITS) // 1_000_000)

    @property
    def drift_ppm(self) -> float:
        return self.drift * 1e6 / (1 << DRIFT_BITS)

    @property
    def inverse(self) -> Line:
        """The way back: to the nanosecond, but for what rounding joined."""
        one = 1 << DRIFT_BITS
        back = -(self.drift << DRIFT_BITS) // (one + self.drift)
        return Line(self.origin_ns + self.offset_ns, -self.offset_ns, back)

    def __call__(self, times: Ints) -> Ints:
        passed = times - self.origin_ns
        # Rounded down as one product would be.
        high, low = passed >> LOW_BITS, passed & ((1 << LOW_BITS) - 1)
        gained = (high * self.drift + (low * self.drift >> LOW_BITS)) >> DRIFT_BITS - LOW_BITS
        image: Ints = times + self.offset_ns + gained
        return image

    def then(self, other: Line, times: Ints) -> Line:
        """Both one after the other, exact at two times of the clock that goes in."""
        return Line.through(times, other(self(times)))
