# SPDX-License-Identifier: Apache-2.0
"""Two machines' exchanges with one coordinator to a line between the machines.

A clock that was read between sending and receiving is a serve within its ask: the
lines that all exchanges of a machine allow are found as causality finds them. The
quickest exchanges are what bounds them; slow ones have no effect.
"""

from __future__ import annotations

import numpy as np

from iostrata.clock.causality import Causality, bound_by_causality
from iostrata.clock.intervals import Intervals
from iostrata.clock.line import Line
from iostrata.clock.offer import Offer
from iostrata.trace.clocks import Exchange
from iostrata.trace.read import Trace


def offers_of_exchange(upper: Trace, lower: Trace) -> list[Offer]:
    """One, where both machines' clocks were asked for and kept steady; else none."""
    above, below = to_coordinator(upper.facts.exchange), to_coordinator(lower.facts.exchange)
    if not above or not below or above.contradiction or below.contradiction:
        return []
    ends, up = below.corridor.ends, above.corridor.middle
    line = Line.through(ends, up.inverse(below.corridor.middle(ends)))
    return [Offer(line, above.corridor.bound_ns + below.corridor.bound_ns)]


def to_coordinator(exchange: Exchange) -> Causality | None:
    number = np.arange(len(exchange))
    return bound_by_causality(
        Intervals(number, exchange.sent_ns, exchange.received_ns),
        Intervals(number, exchange.remote_ns, exchange.remote_ns),
    )
