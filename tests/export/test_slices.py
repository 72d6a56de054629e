# SPDX-License-Identifier: Apache-2.0
"""Spans of many writes come in the order in which they are exported, each once."""

from __future__ import annotations

import numpy as np
import pytest

from iostrata.export.slices import _in_order
from iostrata.stitch import Spans


@pytest.mark.parametrize("latest_ns", [20, 2_000_000, 1 << 62])
@pytest.mark.parametrize("count", [0, 1, 3000])
def test_by_owner_begin_longest_first(latest_ns: int, count: int) -> None:
    draw = np.random.default_rng(count)
    owner, rank = draw.integers(0, 40, count), draw.integers(-1, 3, count)
    begin_ns = draw.integers(latest_ns // 2, latest_ns, count)
    end_ns = begin_ns + draw.integers(0, 3, count)
    found = _in_order(Spans(owner, rank, begin_ns, end_ns, np.arange(count)))
    rows = zip(owner.tolist(), begin_ns.tolist(), (-end_ns).tolist(), rank.tolist(), strict=True)
    told = zip(
        found.owner.tolist(), found.begin_ns.tolist(), (-found.end_ns).tolist(),
        found.rank.tolist(), strict=True,
    )  # fmt: skip
    assert list(told) == sorted(set(rows))
