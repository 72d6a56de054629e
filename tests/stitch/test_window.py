# SPDX-License-Identifier: Apache-2.0
"""A window's columns are read from the files once, whoever asks for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.stitch import whole
from iostrata.trace import read_trace
from iostrata.trace.points import Points
from tests.benchmarks.analysis import generate


def test_a_column_is_read_once_and_nobody_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path, 1_000)
    read: list[str] = []
    gather = Points._gather

    def noted(self: Points, found: dict[str, np.ndarray], begin: int, end: int) -> None:
        read.extend(found)
        gather(self, found, begin, end)

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
