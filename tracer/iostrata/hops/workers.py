# SPDX-License-Identifier: Apache-2.0
"""Hops: what a target's workers say of their commands in, who took each one up out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.stitch import Columns


def taken_up(work: Columns, key: Ints, begun: Columns, end_ns: Ints) -> tuple[Ints, Ints]:
    """Who began to carry each command out, and when; of what was not seen, who read it, and when.

    ``work``: at which command a worker is; ``key``: of each that has ``begun``, its command's.
    """
    found = AsOf(work["request_key"], work["time_ns"]).at_or_after(key, begun["time_ns"])
    when = at(work["time_ns"], found)
    seen = (when >= 0) & (when <= end_ns)
    return (
        np.where(seen, at(work["tid"], found), begun["tid"]),
        np.where(seen, when, begun["time_ns"]),
    )
