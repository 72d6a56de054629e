# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a link in, a line of how much of what went by it was seen as packets out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iostrata import units
from iostrata.columns import distinct
from iostrata.hops import Link


def carried(link: Link) -> Iterator[str]:
    """Of what was followed; what was not seen at each point of its way is in none of its parts."""
    if not link.ways:
        return
    ask = distinct(link.pairs.ask)
    seen = (link.ways.there_ns[:, ask] >= 0).all(axis=0)
    seen &= (link.ways.back_ns[:, ask] >= 0).all(axis=0)
    by = "".join(
        f", by {one.machine} between them (clocks by {one.clock.source}, "
        f"±{units.duration(one.clock.bound_ns)})"
        for one in link.ways.carriers
    )
    yield (
        f"{link.upper.machine} to {link.lower.trace.machine}: {np.count_nonzero(seen)} of "
        f"{len(ask)} calls and replies seen as packets{by}"
    )
