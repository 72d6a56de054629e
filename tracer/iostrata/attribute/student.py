# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: a probability and degrees of freedom in, the quantile of Student's t out."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

HALVINGS: Final = 100


def within(t: float, degrees: int) -> float:
    """How probable a value between ``-t`` and ``t`` is: the finite series for whole degrees.

    Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan2(t, math.sqrt(degrees))
    term, series, square = 1.0, 0.0, math.cos(angle) ** 2
    for number in range(1 + degrees % 2, degrees, 2):
        series += term
        term *= square * number / (number + 1)
    if degrees % 2 == 0:
        return math.sin(angle) * series
    return 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * series)


@lru_cache(maxsize=4096)
def quantile(probability: float, degrees: int) -> float:
    """What a t of so many degrees (1 and more) stays below, so probably (0.5 and more)."""
    low, high = 0.0, 1.0
    while (1 + within(high, degrees)) / 2 < probability:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if (1 + within(middle, degrees)) / 2 < probability:
            low = middle
        else:
            high = middle
    return high
