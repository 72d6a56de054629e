# SPDX-License-Identifier: Apache-2.0
"""Student's t: as in the printed tables."""

from __future__ import annotations

import pytest

from iostrata.attribute.student import quantile, within


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [
        (0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.995, 3, 5.8409), (0.995, 4, 4.6041),
        (0.99, 5, 3.3649), (0.8, 6, 0.9057), (0.975, 8, 2.3060), (0.9995, 10, 4.5869),
        (0.975, 30, 2.0423), (0.975, 120, 1.9799), (0.5, 7, 0.0),
    ],
)  # fmt: skip
def test_quantiles(probability: float, degrees: int, expected: float) -> None:
    assert quantile(probability, degrees) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("degrees", range(1, 40))
def test_there_and_back(degrees: int) -> None:
    for probability in (0.6, 0.9, 0.999, 0.99999):
        found = within(quantile(probability, degrees), degrees)
        assert (1 + found) / 2 == pytest.approx(probability, abs=1e-12)
