# SPDX-License-Identifier: Apache-2.0
"""Bins: every write is in one, and what they hold is what the Breakdown holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata.attribute.charts import MOST_BINS, charts
from iostrata.model import Stack
from tests.attribute.test_compare import noisy, of_rows


def total(*stacks: Stack) -> float:
    return sum(
        mean * count
        for stack in stacks
        for row in stack.mean_ns
        for mean, count in zip(row, stack.counts, strict=True)
    )


@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=300))
def test_nothing_is_left_out(rows: list[tuple[int, ...]]) -> None:
    breakdown = of_rows(rows)
    found = charts(breakdown)
    for stack in (found.over_time, found.body, found.tail):
        assert len(stack.edges) == len(stack.counts) + 1
        assert len(stack.mean_ns) == len(breakdown.layers) + 1
    assert sum(found.over_time.counts) == len(rows)
    assert sum(found.body.counts) + sum(found.tail.counts) == len(rows)
    assert 0 not in (*found.body.counts, *found.tail.counts)
    latency = float(breakdown.writes.latency_ns.sum())
    assert total(found.over_time) == pytest.approx(latency, abs=1)
    assert total(found.body, found.tail) == pytest.approx(latency, abs=1)


def test_bins_are_in_order_of_latency() -> None:
    found = charts(noisy(1, 20_000))
    assert len(found.over_time.counts) == MOST_BINS
    means = [np.array(stack.mean_ns).sum(axis=0) for stack in (found.body, found.tail)]
    assert (np.diff(np.concatenate(means)) > 0).all()
    assert found.tail.edges == (98.0, 98.5, 99.0, 99.5, 99.9, 99.99, 100.0)
    assert found.tail.counts == (100, 100, 100, 80, 18, 2)
