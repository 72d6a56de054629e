# SPDX-License-Identifier: Apache-2.0
"""Asks and serves of unrelated clocks to the lines that most asks allow.

An ask and a serve of its key allow any offset from ``ask.begin - serve.begin`` to
``ask.end - serve.end``. With no clue which serve is the ask's, it votes for what any
of them allows, once; the right offset is the one that nearly all asks have in common.
The voters are close in time, and drift widens what those further off allow.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from iostrata.clock.intervals import Candidates, every
from iostrata.clock.line import MAX_DRIFT_PPM, Line
from iostrata.model import Ints

VOTERS = 512
BUDGET = 1 << 20
"""Pairs that are looked at together: rare keys have the first choice."""
RECOUNT = 1 << 22
PLACES = (8, 4, 12, 2, 14, 1, 15)
"""Where to look for voters, in sixteenths: one recording may cover a part of the other only."""
CLEAR_SHARE = 0.8
RIVALS = 256
DRIFTS_PPM = range(-MAX_DRIFT_PPM, MAX_DRIFT_PPM + 1, 25)


def voted_lines(candidates: Candidates) -> tuple[list[Line], int]:
    """Lines through the offsets with the most votes, and the ask around which they fit best.

    Several offsets where the votes decide nothing: where every write is like the next.
    """
    most, offsets, centre = 0, np.zeros(0, np.int64), 0
    for place in PLACES:
        here = len(candidates.asks) * place // 16
        voters = affordable(candidates, rarest(candidates, here, VOTERS))
        found, votes = poll(candidates, voters, here)
        if votes > most:
            most, offsets, centre = votes, found, here
        if votes >= CLEAR_SHARE * len(voters):
            break
    offsets = narrow(candidates, offsets, centre)
    now = int(candidates.asks.begin_ns[centre])
    # Where asks are far apart, no line without drift fits two of them.
    drifts = DRIFTS_PPM if len(offsets) * len(DRIFTS_PPM) <= RIVALS else (0,)
    pairs = itertools.product(offsets.tolist(), drifts)
    return [Line.drifting(now - offset, offset, ppm) for offset, ppm in pairs], centre


def rarest(candidates: Candidates, centre: int, count: int) -> Ints:
    """Of the asks around one, those with the fewest serves to choose from, the nearest first."""
    begin = max(0, centre - 2 * count)
    around = np.arange(begin, min(begin + 4 * count, len(candidates.asks)))
    first, last = candidates.of_key(around)
    return around[np.lexsort((np.abs(around - centre), last - first))[:count]]


def affordable(candidates: Candidates, voters: Ints) -> Ints:
    first, last = candidates.of_key(voters)
    count = np.searchsorted(np.cumsum(last - first), BUDGET, side="right")
    return voters[: max(1, int(count))]


def poll(candidates: Candidates, voters: Ints, centre: int) -> tuple[Ints, int]:
    """The offsets with nearly the most votes, and what the most are."""
    asks, serves = candidates.asks, candidates.serves
    pairs = every(voters, *candidates.of_key(voters))
    drifted = drift_ns(candidates, pairs.ask, centre)
    low = asks.begin_ns[pairs.ask] - serves.begin_ns[pairs.serve] - drifted
    high = asks.end_ns[pairs.ask] - serves.end_ns[pairs.serve] + drifted
    allowed = high >= low
    if not allowed.any():
        return np.zeros(0, np.int64), 0
    return summits(*once(pairs.ask[allowed], low[allowed], high[allowed]))


def drift_ns(candidates: Candidates, asks: Ints, centre: int) -> Ints:
    """How much further or less the clocks may be apart at some asks than at one."""
    begin = candidates.asks.begin_ns
    drifted: Ints = np.abs(begin[asks] - begin[centre]) * MAX_DRIFT_PPM // 1_000_000
    return drifted


def once(voters: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Each voter's intervals cut so that they do not overlap."""
    order = np.lexsort((low, voters))
    voters, low, high = voters[order], low[order], high[order]
    change = np.concatenate(([True], voters[1:] != voters[:-1]))
    # One running maximum for all: each voter's intervals are moved above the last voter's.
    floor = np.cumsum(change) * (int(high.max()) - int(low.min()) + 2) - int(low.min())
    reached = np.maximum.accumulate(high + floor) - floor
    behind = np.concatenate(([0], reached[:-1])) + 1
    low = np.where(change, low, np.maximum(low, behind))
    some: NDArray[np.bool_] = low <= high
    return low[some], high[some]


def summits(low: Ints, high: Ints) -> tuple[Ints, int]:
    """The middles of the stretches with nearly the most votes, those with most first.

    Also what the most are.
    """
    at = np.concatenate((low, high + 1))
    order = np.argsort(at, kind="stable")
    at = at[order]
    votes = np.cumsum(np.repeat((1, -1), len(low))[order])[:-1]
    begin, end = at[:-1], at[1:]
    most = int(votes[end > begin].max())
    top = (votes >= CLEAR_SHARE * most) & (end > begin)
    begin, end, votes = begin[top], end[top], votes[top]
    # Stretches that touch are one summit: its highest part stands for it.
    summit = np.cumsum(np.concatenate(([False], begin[1:] != end[:-1])))
    order = np.lexsort((-votes, summit))
    highest = order[np.unique(summit[order], return_index=True)[1]]
    highest = highest[np.argsort(-votes[highest], kind="stable")]
    return (begin[highest] + end[highest]) // 2, most


def narrow(candidates: Candidates, offsets: Ints, centre: int) -> Ints:
    """Few enough offsets to follow one by one: when too many are left, more voters are asked."""
    while len(offsets) > RIVALS:
        count = min(RECOUNT // len(offsets), VOTERS)
        votes = recount(candidates, offsets, rarest(candidates, centre, count), centre)
        clear = int(np.count_nonzero(votes >= CLEAR_SHARE * votes.max()))
        if count == VOTERS or clear == len(offsets):
            clear = min(clear, RIVALS)
        offsets = offsets[np.argsort(-votes, kind="stable")[:clear]]
    return offsets


def recount(candidates: Candidates, offsets: Ints, voters: Ints, centre: int) -> Ints:
    """How many voters have a serve within them at each offset."""
    asks, drifted = candidates.asks.take(voters), drift_ns(candidates, voters, centre)
    begin = np.subtract.outer(asks.begin_ns - drifted, offsets)
    end = np.subtract.outer(asks.end_ns + drifted, offsets)
    votes: Ints = candidates.any_within(asks.key[:, np.newaxis], begin, end).sum(axis=0)
    return votes
