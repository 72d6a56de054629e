# SPDX-License-Identifier: Apache-2.0
"""Hops: sleeps of the lower machine's threads in, while they waited for a CPU out."""

from __future__ import annotations

import numpy as np

from iostrata.layers import RANK
from iostrata.stitch import Sleeps, Spans


def waits_of(sleeps: Sleeps, rank: str) -> Spans:
    """One a sleep, in their order, in the lower machine's clock."""
    row = np.arange(len(sleeps))
    ranks = np.full(len(row), RANK[rank], np.int16)
    return Spans(row, ranks, sleeps.runnable_ns, sleeps.on_ns, np.full(len(row), -1))
