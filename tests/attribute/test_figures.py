# SPDX-License-Identifier: Apache-2.0
"""Figures of few times and of many are the same numbers, whichever way they are found."""

from __future__ import annotations

import numpy as np
import pytest

from iostrata.attribute.figures import FEW, figures


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 50, FEW - 1, FEW, FEW + 1, 3 * FEW])
def test_they_are_what_numpy_has(count: int) -> None:
    times = np.random.default_rng(count).integers(0, 1 << 40, count)
    found = figures(times, 1e9)
    expected = np.percentile(times, (50, 95, 99), method="inverted_cdf").tolist()
    assert [found.p50_ns, found.p95_ns, found.p99_ns] == expected
    assert found.max_ns == times.max()
    assert found.mean_ns == sum(times.tolist()) / count
