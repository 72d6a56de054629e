# SPDX-License-Identifier: Apache-2.0
"""Two machines' exchanges with one coordinator to a line between the machines.

A clock that was read between sending and receiving is a serve within its ask: the
lines that all exchanges of a machine allow are found as causality finds them. The
quickest exchanges are what bounds them; slow ones have no effect.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from iostrata.clock.causality import Causality, bound_by_causality
from iostrata.clock.corridor import Corridor
from iostrata.clock.intervals import Intervals
from iostrata.clock.line import Line
from iostrata.clock.offer import Offer
from iostrata.trace import Exchange, Trace


def offers_of_exchange(upper: Trace, lower: Trace) -> list[Offer]:
    """One, where both machines' clocks were asked for and kept steady; else none."""
    above, below = (
        to_coordinator(one.facts.exchange, one.begin_ns, one.end_ns) for one in (upper, lower)
    )
    if not above or not below:
        return []
    up, down = above.middle, below.middle
    line = Line.through(below.ends, up.inverse(down(below.ends)))
    return [Offer(line, above.bound_ns + below.bound_ns)]


def to_coordinator(exchange: Exchange, begin_ns: int, end_ns: int) -> Corridor | None:
    """The lines from a machine's clock to the coordinator's, over all that was recorded."""
    columns = exchange.sent_ns, exchange.remote_ns, exchange.received_ns
    found = bound_by_exchange(*(column.tobytes() for column in columns))
    if not found or found.contradiction or begin_ns == end_ns:
        return None
    return found.corridor.over(np.array((begin_ns, end_ns)))


# Found once a machine, and not for each other one it is held against, nor each time that its
# recording is read again.
@lru_cache(maxsize=256)
def bound_by_exchange(sent: bytes, remote: bytes, received: bytes) -> Causality | None:
    sent_ns, remote_ns, received_ns = (
        np.frombuffer(column, np.int64) for column in (sent, remote, received)
    )
    number = np.arange(len(sent_ns))
    return bound_by_causality(
        Intervals(number, sent_ns, received_ns), Intervals(number, remote_ns, remote_ns)
    )
