# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: times of some writes in one place in, their Figures out."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import in_order
from iostrata.model import Figures


def figures(times: NDArray[np.int64], total_mean_ns: float) -> Figures:
    """Percentiles are times that occurred (nearest rank), never interpolated ones."""
    if not len(times):
        return Figures(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    # As np.percentile's inverted_cdf, without the much that it looks at before.
    ranks = [max(ceil(len(times) * part) - 1, 0) for part in (0.5, 0.95, 0.99)]
    p50, p95, p99 = in_order(times)[ranks].tolist()
    # The sum is taken in Python's integers, so that means add up exactly.
    mean = int(times.sum()) / len(times)
    share = mean / total_mean_ns if total_mean_ns else 0.0
    return Figures(mean, float(p50), float(p95), float(p99), float(times.max()), share)
