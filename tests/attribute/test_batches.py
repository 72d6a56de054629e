# SPDX-License-Identifier: Apache-2.0
"""Errors within a run, whose writes are far from independent: held against many runs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.attribute.batches import FEWEST, Batches

RUNS = 300


def autocorrelated(count: int, seed: int) -> NDArray[np.int64]:
    """Some ten neighbours are alike; the marginal has a heavy tail."""
    random = np.random.default_rng(seed)
    steps = random.normal(0, 1, count + 100)
    level = np.zeros(count + 100)
    for number in range(1, count + 100):
        level[number] = 0.8 * level[number - 1] + 0.6 * steps[number]
    return (np.exp(0.5 * level[100:]) * 100_000).astype(np.int64)


@pytest.fixture(scope="module")
def runs() -> list[NDArray[np.int64]]:
    return [autocorrelated(2000, seed) for seed in range(RUNS)]


def test_the_error_of_a_mean(runs: list[NDArray[np.int64]]) -> None:
    errors = [Batches(len(run)).errors(run[np.newaxis])[0] for run in runs]
    truth = np.std([run.mean() for run in runs])
    independent = np.mean([run.std() / len(run) ** 0.5 for run in runs])
    assert np.mean(errors) == pytest.approx(truth, rel=0.15)
    # As if the writes were independent, it would be a half of that and less.
    assert independent < 0.5 * truth


@pytest.mark.parametrize("percent", [50, 99])
def test_the_error_of_a_percentile(runs: list[NDArray[np.int64]], percent: float) -> None:
    errors = [Batches(len(run)).error_of_percentile(run, percent) for run in runs]
    truth = np.std([np.percentile(run, percent) for run in runs])
    assert 0.85 * truth < np.mean(errors) < 1.6 * truth


@pytest.mark.parametrize("count", [FEWEST, 21, 59, 400, 100_003])
def test_every_write_is_in_a_stretch(count: int) -> None:
    batches = Batches(count)
    assert batches.errors(np.full((2, count), 7, np.int64)).tolist() == [0, 0]
    assert batches._sizes.sum() == count
    assert batches._sizes.min() >= 1
    assert np.ptp(batches._sizes) <= 1
