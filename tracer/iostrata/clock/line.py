# SPDX-License-Identifier: Apache-2.0
"""One clock's times in, another's out: a straight line in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from iostrata.model import Ints

MAX_DRIFT_PPM = 200
"""No two clocks that are kept by crystals drift apart faster."""
DRIFT_BITS = 44
"""A drift's fraction: one unit is 2.5 ns a day."""
HALF_BITS = DRIFT_BITS // 2


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
        # In two halves, as the product needs more than 64 bits; rounded down as one would be.
        high, low = passed >> HALF_BITS, passed & ((1 << HALF_BITS) - 1)
        gained = (high * self.drift + (low * self.drift >> HALF_BITS)) >> HALF_BITS
        image: Ints = times + self.offset_ns + gained
        return image

    def then(self, other: Line, times: Ints) -> Line:
        """Both one after the other, exact at two times of the clock that goes in."""
        return Line.through(times, other(self(times)))
