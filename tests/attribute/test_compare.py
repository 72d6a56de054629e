# SPDX-License-Identifier: Apache-2.0
"""Comparison: what was made slower is found, what is noise is not, and it all adds up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iostrata.attribute.bootstrap import Resampled
from iostrata.attribute.compare import compare
from iostrata.model import Breakdown, NotObserved, Quality
from tests.attribute.test_tail import breakdown


def noisy(seed: int, count: int = 2000, device_ns: int = 50_000) -> Breakdown:
    """Heavy-tailed, and alike from write to write: what real disks give."""
    random = np.random.default_rng(seed)
    times = (random.lognormal(0, 1.0, (3, count)) * 5_000).astype(np.int64)
    level = np.cumsum(random.normal(0, 1, count + 50))
    swing = (level[50:] - level[:-50]) / 7 * 3_000
    times[2] += (device_ns + swing).astype(np.int64)
    return breakdown(np.maximum(times, 0), np.zeros(count, np.int64))


def test_the_layer_that_was_made_slower() -> None:
    found = compare(noisy(1), noisy(2, device_ns=65_000), limit=0.1)
    (group,) = found.groups
    real = {row.layer.name for row in group.rows if row.layer and row.change.real}
    assert real == {"device.data"}
    assert {one.row for one in found.regressions} >= {"total", "p50", "device.data"}
    device = group.rows[2].change
    assert device.low_ns < 15_000 < device.high_ns
    assert not compare(noisy(1), noisy(2, device_ns=65_000), limit=0.5).regressions
    faster = compare(noisy(2, device_ns=65_000), noisy(1), limit=0.1)
    assert faster.groups[0].total.real
    assert not faster.regressions


def test_noise_is_not_called_a_change() -> None:
    """At 99 % one in a hundred may be; the writes here are far from independent."""
    pairs = [compare(noisy(seed), noisy(seed + 1000)) for seed in range(40)]
    for name in ("total", "p50", "p99"):
        assert sum(getattr(pair.groups[0], name).real for pair in pairs) <= 2


def test_the_same_answer_each_time() -> None:
    assert compare(noisy(1), noisy(2)) == compare(noisy(1), noisy(2))


@given(
    st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=40),
    st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=40),
)
def test_changes_add_up(a: list[tuple[int, ...]], b: list[tuple[int, ...]]) -> None:
    (group,) = compare(of_rows(a), of_rows(b)).groups
    total = sum(row.change.change_ns for row in group.rows)
    assert total == pytest.approx(group.total.change_ns, abs=1e-3)
    assert group.judged == (min(len(a), len(b)) >= 20)
    if not group.judged:
        assert not group.total.real


def of_rows(rows: list[tuple[int, ...]]) -> Breakdown:
    times = np.array(rows, np.int64).T
    return breakdown(times, np.zeros(len(rows), np.int64))


@pytest.mark.parametrize("percent", [50, 99])
def test_percentiles_are_those_of_the_drawn_writes(percent: float) -> None:
    values = np.random.default_rng(1).lognormal(10, 1, 300).astype(np.int64)
    drawn = Resampled(values[np.newaxis], seed=5)
    found = drawn.percentiles(values, percent)
    for resample in range(20):
        counts = drawn._draws[resample][drawn._block].astype(np.int64)
        expected = np.percentile(np.repeat(values, counts), percent, method="inverted_cdf")
        # The grid's grain: two ranks off at most in so few writes.
        exact = np.percentile(values, percent, method="inverted_cdf")
        unwidened = exact + (found[resample] - exact) * (16 / 20) ** 0.5
        ranks = np.searchsorted(np.sort(values), [expected, unwidened - 1e-3])
        assert abs(int(ranks[0]) - int(ranks[1])) <= 4


def test_means_are_those_of_the_drawn_writes() -> None:
    values: NDArray[np.int64] = np.arange(1, 101)
    drawn = Resampled(np.stack([values, 2 * values]), seed=5)
    counts = drawn._draws[0][drawn._block]
    expected = 50.5 + ((values * counts).sum() / counts.sum() - 50.5) * (20 / 16) ** 0.5
    assert drawn.means()[:, 0].tolist() == pytest.approx([expected, 2 * expected])


def test_what_only_one_observed_is_not_judged() -> None:
    quality = Quality(not_observed=(NotObserved("fs", "no program", "syscall or lock"),))
    slower = noisy(2)
    slower.time_ns[:2] += 1_000_000
    slower.writes.latency_ns[:] += 2_000_000
    found = compare(replace(noisy(1), quality=quality), slower, limit=0.1)
    assert [row.unlike for row in found.groups[0].rows] == [True, True, False, False]
    assert {one.row for one in found.regressions} == {"total", "p50", "p99"}
