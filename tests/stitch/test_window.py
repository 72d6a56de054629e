# SPDX-License-Identifier: Apache-2.0
"""A window reaches as far as what was in flight, and its columns are read from the files once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iostrata.stitch import whole, window, window_of
from iostrata.stitch.calls import Pieces
from iostrata.stitch.window import MARGIN_NS, NO_COMMITS, WINDOW_PIECES, windows
from iostrata.trace import read_trace
from iostrata.trace.points import Points
from tests.benchmarks.analysis import generate


def test_a_column_is_read_once_and_nobody_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path, 1_000)
    read: list[str] = []
    gather = Points._gather

    def noted(self: Points, found: dict[str, np.ndarray], *rest: Any, **how: Any) -> None:
        read.extend(found)
        gather(self, found, *rest, **how)

    window = whole(read_trace(tmp_path))
    monkeypatch.setattr(Points, "_gather", noted)
    some = window.columns("block_rq_issue", "dev", "tid")
    more = window.columns("block_rq_issue", "tid", "sector", "dev")
    assert read == ["dev", "tid", "sector"]
    assert list(more) == ["time_ns", "tid", "sector", "dev"]
    assert more["tid"] is some["tid"]
    assert (more["time_ns"] == window.trace.points["block_rq_issue"].time_ns).all()
    with pytest.raises(ValueError, match="read-only"):
        more["tid"][0] = 1


@pytest.mark.parametrize(("asynchronous", "depth", "room"), [(0, 64, 1), (1, 1, 1), (1, 49, 2),
                                                             (1, 97, 3)])  # fmt: skip
def test_requests_that_wait_for_each_other_take_more_room(
    asynchronous: int, depth: int, room: int
) -> None:
    count = 40_000
    number = np.arange(count)
    rows = np.random.default_rng(1).permutation(count)
    begin = number[rows] * 1_000
    pieces = Pieces(number, number * 0, begin, begin + 1_000 * depth, number * 0,
                    number * 0 + asynchronous)  # fmt: skip
    found = [one.rows[one.own] for one in windows(pieces)]
    assert [begin[one].tolist() for one in found] == [sorted(begin[one].tolist()) for one in found]
    assert sorted(np.concatenate(found).tolist()) == number.tolist()
    sizes = [len(one) for one in found[:-1]]
    # The first of all have nobody beside them yet.
    assert all(abs(size - WINDOW_PIECES / room) <= depth for size in sizes)


@pytest.mark.parametrize(("crowd", "reach_ns"), [(3, (100, 150)), (WINDOW_PIECES, (1_000, 1_000))])
def test_a_crowd_reaches_as_far_as_what_was_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crowd: int, reach_ns: tuple[int, int]
) -> None:
    """Each takes 150 ns, but one of the window's own: among few, others may have begun so early."""
    monkeypatch.setattr(window, "WINDOW_PIECES", crowd)
    generate(tmp_path, 10)
    number = np.arange(400)
    begin = MARGIN_NS + 2_000 + number * 100
    end = begin + 150
    rows = np.arange(198, 203)
    end[200] = begin[200] + 1_000
    every = Pieces(number, number * 0, begin, end, number * 0, number + 1)
    own = every.rows(rows)
    found = window_of(read_trace(tmp_path), own, NO_COMMITS, beside=every)
    reached = int(begin[198]) - found.begin_ns, found.end_ns - int(end[200])
    assert reached == tuple(MARGIN_NS + ns for ns in reach_ns)
