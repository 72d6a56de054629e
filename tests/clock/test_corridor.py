# SPDX-License-Identifier: Apache-2.0
"""The corridor against every line of a grid."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iostrata.clock.corridor import corridor, lower_hull
from iostrata.clock.intervals import Candidates, Intervals, Pairs
from iostrata.clock.line import Line

SPAN_NS = 100_000_000
SHOWN = Line(0, 1_000_000)
rows = st.lists(
    st.tuples(st.integers(0, SPAN_NS), st.integers(0, 3_000), st.integers(0, 3_000)),
    min_size=1, max_size=12,
)  # fmt: skip


@given(rows)
def test_box_middle_and_reach(rows: list[tuple[int, int, int]]) -> None:
    at, before, after = np.array(rows, np.int64).T
    key = np.arange(len(at))
    asks = Intervals(key, SHOWN(at) - before, SHOWN(at) + after)
    candidates = Candidates(asks, Intervals(key, at, at))
    pairs = candidates.within(key, SHOWN)
    found = corridor(candidates, Pairs(pairs.ask, pairs.serve), SHOWN, np.array((0, SPAN_NS)))
    fitting = np.array(list(grid_lines(at, before, after)))
    low, high = found.box
    assert (fitting >= low - 1).all()
    assert (fitting <= high + 1).all()
    below, above = found.reach(found.middle)
    assert (found.sides @ ((low + high) / 2) <= found.limits + 1).all()
    assert below <= 0 <= above
    assert abs(below + above) <= 3
    for line in (SHOWN, found.middle):
        assert np.abs(found.clip(line)(found.ends) - line(found.ends)).max() <= 2
    # Far out is brought back to what every row allows.
    clipped = found.clip(Line(0, 900_000))
    heights = clipped(at) - SHOWN(at)
    assert (heights >= -before - 2).all()
    assert (heights <= after + 2).all()


def grid_lines(at: np.ndarray, before: np.ndarray, after: np.ndarray) -> list[tuple[int, int]]:
    """Heights at both ends of the lines on a grid that all rows and the drift allow."""
    one = np.arange(-24_000, 24_001, 500)
    first, last = (side.ravel() for side in np.meshgrid(one, one))
    heights = first[:, np.newaxis] + np.outer(last - first, at / SPAN_NS)
    fits = ((heights >= -before) & (heights <= after)).all(axis=1)
    fits &= np.abs(last - first) <= SPAN_NS * 200 // 1_000_000
    return list(zip(first[fits].tolist(), last[fits].tolist(), strict=True))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=40))
def test_hull_is_what_lies_below_everything(points: list[tuple[int, int]]) -> None:
    x, y = np.array(points, np.float64).T
    hull = lower_hull(x, y)
    assert (np.diff(x[hull]) >= 0).all()
    for slope in np.linspace(-30, 30, 121):
        assert (y - slope * x).min() == (y[hull] - slope * x[hull]).min()
