# SPDX-License-Identifier: Apache-2.0
"""Histogram and course over time: every write is in one bin, and what it holds is counted anew."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata.attribute import histogram, over_time
from iostrata.attribute.spread import MOST_BINS
from tests.attribute.test_compare import of_rows

ROWS = st.lists(st.tuples(*[st.integers(0, 10**10)] * 3), min_size=1, max_size=200)


@given(ROWS)
def test_every_write_is_in_the_bin_of_its_latency(rows: list[tuple[int, ...]]) -> None:
    breakdown = of_rows(rows)
    latency = breakdown.writes.latency_ns
    bins = histogram(breakdown)
    assert len(bins) <= MOST_BINS
    for one, following in pairwise(bins):
        assert one.low < one.high == following.low
    for one in bins:
        inside = (latency < one.high) & ((latency >= one.low) | (one is bins[0]))
        assert one.count == inside.sum()
        assert one.up_to == pytest.approx((latency < one.high).mean())
        assert one.mean_ns == (pytest.approx(latency[inside].mean()) if inside.any() else None)
        held = breakdown.time_ns[:, inside].sum(axis=1)
        if one.layer:
            place = breakdown.layers.index(one.layer)
            assert held[place] == held.max()
            assert one.layer_share == pytest.approx(held[place] / latency[inside].sum())
        else:
            assert not held.any()
    assert sum(one.count for one in bins) == len(rows)


def test_edges_are_round_and_as_fine_as_there_is_room() -> None:
    near = histogram(of_rows([(ns, 0, 0) for ns in range(100_000, 200_000, 500)]))
    assert [one.low for one in near] == [100_000, 120_000, 150_000]
    far = histogram(of_rows([(10**power, 0, 0) for power in range(3, 10)]))
    assert [one.low for one in far][:4] == [1_000, 2_000, 5_000, 10_000]


@given(ROWS, st.integers(1, 60))
def test_shares_over_time_are_of_the_time_of_their_bin(
    rows: list[tuple[int, ...]], intervals: int
) -> None:
    breakdown = of_rows(rows)
    found = over_time(breakdown, intervals)
    bins = len(found.edges_s) - 1
    assert 1 <= bins <= intervals
    assert {
        len(course.values) for course in (found.writes_per_s, found.mean_ns, *found.shares)
    } == {bins}
    seconds = np.diff(found.edges_s)
    rates = [value or 0.0 for value in found.writes_per_s.values]
    counts = np.rint(np.array(rates) * seconds)
    assert counts.sum() == len(rows)
    means = [value or 0.0 for value in found.mean_ns.values]
    assert (counts * means).sum() == pytest.approx(breakdown.writes.latency_ns.sum(), abs=1)
    names = [layer.name for layer in breakdown.layers]
    for course in found.shares:
        row = (
            breakdown.residual_ns
            if course.name == "unattributed"
            else breakdown.time_ns[names.index(course.name)]
        )
        shares = [value or 0.0 for value in course.values]
        assert (counts * means * shares).sum() == pytest.approx(row.sum(), abs=1 + row.sum() * 1e-6)
        for count, value in zip(counts, course.values, strict=True):
            assert (value is None) == (count == 0)
