# SPDX-License-Identifier: Apache-2.0
"""Lines against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iostrata.clock.line import DRIFT_BITS, MAX_DRIFT_PPM, Line

HUNDRED_DAYS_NS = 100 * 86_400 * 10**9
LIMIT = (MAX_DRIFT_PPM << DRIFT_BITS) // 1_000_000
lines = st.builds(
    Line, st.integers(0, 2**58), st.integers(-(2**58), 2**58), st.integers(-LIMIT, LIMIT)
)
passed = st.lists(st.integers(-HUNDRED_DAYS_NS, HUNDRED_DAYS_NS), min_size=1, max_size=20)


@given(lines, passed)
def test_exact_and_never_falling(line: Line, passed: list[int]) -> None:
    times = line.origin_ns + np.sort(np.array(passed, np.int64))
    expected = [
        time
        + line.offset_ns
        + floor(Fraction((time - line.origin_ns) * line.drift, 1 << DRIFT_BITS))
        for time in times.tolist()
    ]
    assert line(times).tolist() == expected
    assert (np.diff(line(times)) >= 0).all()


@given(lines, st.lists(st.integers(-86_400_000_000_000, 86_400_000_000_000), min_size=1))
def test_there_and_back(line: Line, passed: list[int]) -> None:
    times = line.origin_ns + np.array(passed, np.int64)
    # A day at a drift that is rounded to 2**-44, on both ways.
    assert np.abs(line.inverse(line(times)) - times).max() <= 7


@given(lines, st.integers(1, HUNDRED_DAYS_NS))
def test_through_two_points(line: Line, apart: int) -> None:
    ends = np.array((line.origin_ns, line.origin_ns + apart))
    again = Line.through(ends, line(ends))
    assert np.abs(again(ends) - line(ends)).max() <= 1 + apart // (1 << DRIFT_BITS)
