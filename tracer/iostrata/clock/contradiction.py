# SPDX-License-Identifier: Apache-2.0
"""Asks, serves and the best line there is to why they cannot all be true, if so."""

from __future__ import annotations

import numpy as np

from iostrata import units
from iostrata.clock.corridor import Corridor
from iostrata.clock.intervals import Candidates, Pairs, every, occurs_once
from iostrata.clock.line import MAX_DRIFT_PPM, Line
from iostrata.model import Ints

MISPAIRED_SHARE = 0.02
"""Of the pairs, those that may contradict the others without any clock being to blame."""
UNIQUE_SHARE = 0.99
"""Of all rows, those whose key no other has, if keys say alone who belongs to whom."""
TIED_SHARE = 0.5
"""Of the asks during the serves, those that must be served: else these machines never met."""


def contradiction(candidates: Candidates, line: Line, corridor: Corridor) -> str | None:
    """Why the pairs cannot all be true with any one line, if so."""
    inside = candidates.within(np.arange(len(candidates.asks)), line)
    by_ns = violations(candidates, line, inside)
    known = len(by_ns) + inside.asked
    if len(by_ns) > MISPAIRED_SHARE * known:
        return (
            f"{len(by_ns)} of {known} requests were served before they were sent, or after "
            f"they were answered, by up to {units.duration(float(by_ns.max()))}, with any "
            f"steady clock within {MAX_DRIFT_PPM} ppm"
        )
    first, last = line(corridor.ends)
    during = (candidates.asks.begin_ns >= first) & (candidates.asks.end_ns <= last)
    served = np.isin(np.flatnonzero(during), inside.ask)
    if served.sum() < TIED_SHARE * len(served):
        return (
            f"of all {len(served)} requests sent meanwhile, to whatever machine, only "
            f"{served.sum()} can have been served here: the others went elsewhere, or the clocks "
            "are wrong"
        )
    return None


def violations(candidates: Candidates, line: Line, inside: Pairs) -> Ints:
    """By how much serves stick out of the asks that must be theirs, ns; one a pair.

    Theirs is one that overlaps, or where keys do not repeat any, as long as neither
    side has a better one.
    """
    asks = np.setdiff1d(np.arange(len(candidates.asks)), inside.ask)
    first, last = candidates.begun_within(asks, line)
    edge, after = candidates.of_key(asks)
    near = every(asks, np.maximum(first - 1, edge), np.minimum(last + 1, after))
    before, behind = candidates.slack(near, line)
    begin, end = candidates.asks.begin_ns[near.ask], candidates.asks.end_ns[near.ask]
    overlaps = (before < end - begin) & (behind < end - begin)
    once = (occurs_once(candidates.asks.key), occurs_once(candidates.serves.key))
    if min(side.mean() for side in once) >= UNIQUE_SHARE:
        overlaps |= once[0][near.ask] & once[1][near.serve]
    theirs = overlaps & ~np.isin(near.serve, inside.serve)
    by_ns = np.maximum(-before, -behind)[theirs]
    # An ask between two such serves counts once, by the nearer.
    order = np.lexsort((by_ns, near.ask[theirs]))
    _, one = np.unique(near.ask[theirs][order], return_index=True)
    nearest: Ints = by_ns[order][one]
    return nearest
