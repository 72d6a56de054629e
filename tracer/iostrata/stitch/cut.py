# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls of which the recording has one end only in, how many there are out."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from iostrata.columns import Ints

BEGUN: Final = "begun before the trace"
RUNNING: Final = "still running at the end"


def cut_short(begin_ns: Ints) -> Counter[str]:
    """By reason, of calls that are told as ``syscall_cut``: 0 is a begin that nobody saw."""
    begun = int(np.count_nonzero(begin_ns == 0))
    return +Counter({BEGUN: begun, RUNNING: len(begin_ns) - begun})
