# SPDX-License-Identifier: Apache-2.0
"""A window's columns are read from the files once, whoever asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iostrata.stitch import whole
from iostrata.stitch.calls import Pieces
from iostrata.stitch.window import WINDOW_PIECES, windows
from iostrata.trace import read_trace
from iostrata.trace.points import Points
from tests.benchmarks.analysis import generate


def test_a_column_is_read_once_and_nobody_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path, 1_000)
    read: list[str] = []
    gather = Points._gather

    def noted(self: Points, found: dict[str, np.ndarray], *rest: Any) -> None:
        read.extend(found)
        gather(self, found, *rest)

    monkeypatch.setattr(Points, "_gather", noted)
    window = whole(read_trace(tmp_path))
    some = window.columns("block_rq_issue", "dev", "tid")
    more = window.columns("block_rq_issue", "tid", "sector", "dev")
    assert read == ["dev", "tid", "sector"]
    assert list(more) == ["time_ns", "tid", "sector", "dev"]
    assert more["tid"] is some["tid"]
    assert (more["time_ns"] == window.trace.points["block_rq_issue"].time_ns).all()
    with pytest.raises(ValueError, match="read-only"):
        more["tid"][0] = 1


@pytest.mark.parametrize(("asynchronous", "depth", "room"), [(0, 64, 1), (1, 1, 1), (1, 17, 2),
                                                             (1, 65, 5)])  # fmt: skip
def test_requests_that_wait_for_each_other_take_more_room(
    asynchronous: int, depth: int, room: int
) -> None:
    count = 40_000
    number = np.arange(count)
    rows = np.random.default_rng(1).permutation(count)
    begin = number[rows] * 1_000
    pieces = Pieces(number, number * 0, begin, begin + 1_000 * depth, number * 0,
                    number * 0 + asynchronous)  # fmt: skip
    found = list(windows(pieces))
    assert [begin[one].tolist() for one in found] == [sorted(begin[one].tolist()) for one in found]
    assert sorted(np.concatenate(found).tolist()) == number.tolist()
    sizes = [len(one) for one in found[:-1]]
    # The first of all have nobody beside them yet.
    assert all(abs(size - WINDOW_PIECES / room) <= depth for size in sizes)
