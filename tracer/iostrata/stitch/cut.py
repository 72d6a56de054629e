# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what the recording has one end of only in, how much there is, by reason, out."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints

BEGUN: Final = "begun before the trace"
RUNNING: Final = "still running at the end"
HANGING: Final = "still running, and began before"
UNFINISHED: Final = "completion not seen"
NO_ROOM: Final = "completion not seen: its ring was full"
OVER: Final = "completion not seen, although it was over"
UNCOLLECTED: Final = "completion not seen: its process collected none by a call"


def cut_short(begin_ns: Ints, running: NDArray[np.bool_], requests: int = 0) -> Counter[str]:
    """By reason, of calls that are told as ``syscall_cut``: 0 is a begin that nobody saw.

    ``running``: those that had not ended at the end. ``requests``: of how many requests the begin
    was not seen.
    """
    begun = begin_ns == 0
    return +Counter({
        BEGUN: int(np.count_nonzero(begun & ~running)) + requests,
        RUNNING: int(np.count_nonzero(~begun)),
        HANGING: int(np.count_nonzero(begun & running)),
    })  # fmt: skip
