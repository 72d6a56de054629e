# SPDX-License-Identifier: Apache-2.0
"""Syncs that may be of more writes, or fewer, than was seen: calls before them were lost."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import Ints
from iostrata.stitch import Units
from iostrata.trace import UNKNOWN_POINT, Trace

# What tells of writes and syncs: points, and how their programs' names begin.
CALLS: Final = frozenset(
    {UNKNOWN_POINT, "syscall", "io_uring_submit_req", "io_uring_complete", "aio_submit",
     "aio_complete"}
)  # fmt: skip
PROGRAMS: Final = tuple(f"program:{name}_" for name in ("syscall", "uring", "aio"))


def unsure_syncs(trace: Trace, units: Units, kept: Ints) -> int:
    """How many of the kept units a loss may have taken writes of, or the sync before them.

    Of what point a loss is, is known of the whole recording only.
    """
    calls = any(name in CALLS or name.startswith(PROGRAMS) for name in trace.lost_by_point)
    # What was lost with a part of a stream may be anything.
    touched = trace.losses.touch(units.since_ns[kept], units.end_ns[kept], untold=not calls)
    return int(np.count_nonzero(touched))
