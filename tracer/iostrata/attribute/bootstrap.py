# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: writes in order of time in, resampled means and percentiles out.

A block bootstrap: writes next to each other in time are alike (the disk was busy,
another process ran), so they are drawn together. The recording is cut into
``FEWEST_BLOCKS`` to ``MOST_BLOCKS`` stretches, about the root of the number of
writes; a resample draws as many stretches, with replacement. Few and long ones,
because what disturbs a disk lasts; what so few draws vary too little is made
good as Student's t does. Only sums per stretch are needed, so a million writes
cost no more than the cutting.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints

RESAMPLES: Final = 4000
FEWEST_BLOCKS: Final = 20
MOST_BLOCKS: Final = 60
GRID_SIDE: Final = 64
GRID_REACH: Final = 0.2

Floats = NDArray[np.float64]


class Resampled:
    """One group of writes, drawn anew ``RESAMPLES`` times.

    ``parts_ns``: int64, shape (rows, writes), in order of time; ``seed`` makes
    the draws, so the same recording always gives the same answer.
    """

    def __init__(self, parts_ns: NDArray[np.int64], seed: int) -> None:
        count = parts_ns.shape[1]
        blocks = min(max(round(count**0.5), FEWEST_BLOCKS), MOST_BLOCKS, count)
        # sqrt(k / (k - 4)) is Student's t over the normal distribution, at 99 %, to 1 %.
        self._widening = (blocks / max(blocks - 4, 1)) ** 0.5
        self._block = np.arange(count) * blocks // count
        first = np.searchsorted(self._block, np.arange(blocks))
        self._sums = np.add.reduceat(parts_ns, first, axis=1).astype(np.float64)
        self._sizes = np.bincount(self._block, minlength=blocks).astype(np.float64)
        draws = np.random.default_rng(seed).multinomial(
            blocks, np.full(blocks, 1 / blocks), RESAMPLES
        )
        self._draws = draws.astype(np.float64)

    def means(self) -> Floats:
        """Of each row in each resample: shape (rows, resamples)."""
        means = np.divide(self._sums @ self._draws.T, self._draws @ self._sizes)
        exact: Floats = self._sums.sum(axis=1) / self._sizes.sum()
        return self._widened(means, exact)

    def percentiles(self, values_ns: Ints, percent: float) -> Floats:
        """The nearest-rank percentile in each resample, to the grain of a grid around it."""
        grid = _grid(values_ns, percent)
        place = np.searchsorted(grid, values_ns, side="left")
        width = len(grid) + 1
        counts = np.bincount(self._block * width + place, minlength=len(self._sizes) * width)
        below = np.cumsum(counts.reshape(-1, width), axis=1)[:, : len(grid)].astype(np.float64)
        wanted = percent / 100 * (self._draws @ self._sizes)
        reached = (self._draws @ below) >= wanted[:, np.newaxis] - 1e-6
        reached[:, -1] = True
        found = grid[np.argmax(reached, axis=1)].astype(np.float64)
        exact = np.percentile(values_ns, percent, method="inverted_cdf")
        widened: Floats = self._widened(found[np.newaxis], np.array([exact], np.float64))[0]
        return widened

    def _widened(self, drawn: Floats, around: Floats) -> Floats:
        centre = around[:, np.newaxis]
        widened: Floats = centre + (drawn - centre) * self._widening
        return widened


def _grid(values_ns: Ints, percent: float) -> Ints:
    """Values around a percentile: the nearer to it, the closer to each other."""
    count, rank = len(values_ns), percent / 100
    away = np.geomspace(0.5 / count, GRID_REACH, GRID_SIDE)
    ranks = np.concatenate([rank - away, [rank], rank + away])
    places = np.clip(np.ceil(ranks * count) - 1, 0, count - 1).astype(np.int64)
    places = np.unique(places)
    return np.unique(np.partition(values_ns, places)[places])
