# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what the recording has one end of only in, how much there is, by reason, out."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from iostrata.columns import Ints

BEGUN: Final = "begun before the trace"
RUNNING: Final = "still running at the end"
UNFINISHED: Final = "completion not seen"
UNCOLLECTED: Final = "completion not seen: its process collected none by a call"


def cut_short(begin_ns: Ints) -> Counter[str]:
    """By reason, of calls that are told as ``syscall_cut``: 0 is a begin that nobody saw."""
    begun = int(np.count_nonzero(begin_ns == 0))
    return +Counter({BEGUN: begun, RUNNING: len(begin_ns) - begun})
