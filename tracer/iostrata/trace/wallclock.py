# SPDX-License-Identifier: Apache-2.0
"""Times of one machine's CLOCK_MONOTONIC in, its wall clock out, by the recorded clock samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.trace.read import Trace

Ints = NDArray[np.int64]


def realtime_of(trace: Trace, times_ns: Ints) -> Ints | None:
    """ns since 1970 by the sample before each time; None where there is no sample at all.

    What is earlier than the first sample goes by that one. A clock that was set
    while recording therefore jumps, as it did.
    """
    samples = trace.points["clock_sample"]
    if not len(samples):
        return None
    at = samples.time_ns.astype(np.int64)
    ahead = samples["realtime_ns"].astype(np.int64) - at
    place = np.searchsorted(at, times_ns, side="right") - 1
    realtime: Ints = times_ns + ahead[np.maximum(place, 0)]
    return realtime
