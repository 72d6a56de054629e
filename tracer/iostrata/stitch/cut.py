# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what the recording has one end of only in, how much there is, by reason, out."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints
from iostrata.trace import Trace

LOST: Final = "events lost meanwhile"
BEGUN: Final = "begun before the trace"
RUNNING: Final = "still running at the end"
HANGING: Final = "still running, and began before"
UNFINISHED: Final = "completion not seen"
NO_ROOM: Final = "completion not seen: its ring was full"
OVER: Final = "completion not seen, although it was over"
UNCOLLECTED: Final = "completion not seen: its process collected none by a call"


def cut_short(
    trace: Trace, begin_ns: Ints, end_ns: Ints, running: NDArray[np.bool_], requests: int = 0
) -> Counter[str]:
    """By reason, of calls that are told as ``syscall_cut``: 0 is a begin that nobody saw, as it was
    before the trace's, or may be in a loss.

    ``running``: those that had not ended at the end. ``requests``: of how many requests the begin
    was not seen.
    """
    lost = (begin_ns == 0) & (trace.losses.begun_by(end_ns) > 0)
    begun = (begin_ns == 0) & ~lost
    return +Counter({
        LOST: int(np.count_nonzero(lost & ~running)),
        BEGUN: int(np.count_nonzero(begun & ~running)) + requests,
        RUNNING: int(np.count_nonzero((begin_ns > 0) | (lost & running))),
        HANGING: int(np.count_nonzero(begun & running)),
    })  # fmt: skip
