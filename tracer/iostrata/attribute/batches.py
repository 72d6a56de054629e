# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: writes in order of time in, how far one run's means and percentiles may be off.

Batch means: writes next to each other in time are alike (the disk was busy,
another process ran), so they are no independent samples. The run is cut into
``FEWEST`` to ``MOST`` stretches, about the root of the number of writes, and
the stretches are held against each other. Few and long ones, because what
disturbs a disk lasts. How one run differs from the next, none of them can tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute.figures import percentiles
from iostrata.columns import Ints

FEWEST: Final = 20
MOST: Final = 60

Floats = NDArray[np.float64]


class Batches:
    """So many writes in order of time, ``FEWEST`` or more, cut into stretches."""

    def __init__(self, count: int) -> None:
        self.number = min(max(round(count**0.5), FEWEST), MOST)
        self._first = np.arange(self.number) * count // self.number
        self._sizes = np.diff(np.append(self._first, count)).astype(np.float64)

    def errors(self, rows: Iterable[Ints]) -> Floats:
        """The standard error of each row's mean; a row: a number of each write."""
        sums = np.array([np.add.reduceat(row, self._first) for row in rows]).astype(np.float64)
        mean = sums.sum(axis=1, keepdims=True) / self._sizes.sum()
        # Stretches differ by a write at most: what each is more than its size explains.
        over = (sums - mean * self._sizes) / self._sizes.mean()
        variance = (over**2).sum(axis=1) / (self.number - 1) / self.number
        errors: Floats = np.sqrt(variance)
        return errors

    def error_of_percentile(self, values: Ints, percent: float) -> float:
        """By how much the nearest-rank percentile moves, if its rank is off by its own error.

        Woodruff's interval: the part of the writes up to the percentile is a mean like any
        other, and the values at the ranks around it say what that part's error is in time.
        """
        (at,) = percentiles(values, [percent])
        (off,) = self.errors([(values <= at).astype(np.int64)]) * 100
        edges = np.clip([percent - off, percent + off], 0, 100)
        below, above = percentiles(values, edges.tolist())
        return float(max(at - below, above - at))
