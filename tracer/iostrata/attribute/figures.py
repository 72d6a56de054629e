# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: times of some writes in one place in, their Figures out."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import Ints
from iostrata.model import Figures

FEW: Final = 64
"""So many are sorted at once in less time than each call for a figure takes."""
PERCENTS: Final = (50, 95, 99)


def figures(times: NDArray[np.int64], total_mean_ns: float) -> Figures:
    """Percentiles are times that occurred (nearest rank), never interpolated ones."""
    if not len(times):
        return Figures(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if len(times) <= FEW:
        told = sorted(times.tolist())
        p50, p95, p99 = (told[place] for place in places_of(PERCENTS, len(told)))
        longest, whole = told[-1], sum(told)
    else:
        p50, p95, p99 = percentiles(times, PERCENTS)
        longest, whole = int(times.max()), int(times.sum())
    # The sum is taken in Python's integers, so that means add up exactly.
    mean = whole / len(times)
    share = mean / total_mean_ns if total_mean_ns else 0.0
    return Figures(mean, float(p50), float(p95), float(p99), float(longest), share)


def weighed(
    times: NDArray[np.int64], weights: NDArray[np.float64], total_mean_ns: float
) -> Figures:
    """The same where each of the times was seen in place of so many."""
    if not len(times):
        return figures(times, total_mean_ns)
    order = np.argsort(times, kind="stable")
    until = np.cumsum(weights[order])
    places = np.searchsorted(until, until[-1] * np.array(PERCENTS) / 100)
    p50, p95, p99 = times[order[np.minimum(places, len(times) - 1)]].tolist()
    mean = float(times @ weights) / float(until[-1])
    share = mean / total_mean_ns if total_mean_ns else 0.0
    return Figures(mean, float(p50), float(p95), float(p99), float(times[order[-1]]), share)


def percentiles(values: Ints, percents: Sequence[float]) -> list[int]:
    """As np.percentile's inverted_cdf, without the much that it looks at before."""
    return ranked(values, places_of(percents, len(values)))


def places_of(percents: Sequence[float], count: int) -> list[int]:
    """Of percentiles, their places among so many in ascending order."""
    return [max(ceil(count * (each / 100)) - 1, 0) for each in percents]


def ranked(values: Ints, places: Sequence[int]) -> list[int]:
    """The numbers that are at some places of all of them in ascending order."""
    if native.LIBRARY is not None:
        return native.ranked(values, places)
    found: list[int] = np.partition(values, places)[places].tolist()
    return found
