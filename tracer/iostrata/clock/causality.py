# SPDX-License-Identifier: Apache-2.0
"""Asks of one machine and serves of another to all lines on which each serve lies within its ask.

Nothing but causality is used: what was served began after it was asked for, and ended
before the asker had it back. It needs no common clock, and bounds every other source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import units
from iostrata.clock.contradiction import contradiction
from iostrata.clock.corridor import Corridor, corridor
from iostrata.clock.intervals import Candidates, Intervals, Pairs, occurs_once, unique
from iostrata.clock.line import Line
from iostrata.clock.settle import refine, settle
from iostrata.clock.vote import voted_lines

LOST_SHARE = 0.1
"""More asks without a serve are not lost, but from before or after the other recording."""
TOLD_SHARE = 0.1
"""Of the asks that are served, those whose serve must be told from others: else it is chance."""
RARELY: Final = 1e-4
MANY: Final = 100
"""Poisson's law is the normal one then, of which that is at most four deviations above."""
LEAST_PARTS: Final = 4
MOST_PARTS: Final = 16
PART_PAIRS: Final = 64
PART_NS: Final = 1_000_000_000
"""A part has so many pairs, and so much time, on average: in less, a clock bends by little."""


@dataclass(frozen=True)
class Causality:
    """``corridor``: the lines that ``pairs`` pairs allow; ``contradiction``: see Alignment.

    ``ambiguity``: why there may be another corridor that is as good, or None; ``rivals``:
    lines in the middle of such. ``parts``: what the pairs of each part of the time allow.
    ``served``: asks with a serve within them, be it one of several. ``certain``: the pairs, of
    ``candidates``.
    """

    corridor: Corridor
    parts: tuple[Corridor, ...]
    pairs: int
    contradiction: str | None
    ambiguity: str | None
    rivals: tuple[Line, ...]
    served: int
    candidates: Candidates
    certain: Pairs

    def proven(self, line: Line, off_ns: int) -> Causality | None:
        """The same, wherever the truth is within ``off_ns`` of a line; None: no pair is certain.

        Of a key that others have as well, chance puts their serves into these asks under some
        wrong lines: what only one line tells from its rivals is no proof of that line.
        """
        candidates, pairs, fitted = self.candidates, self.certain, self.corridor.line
        others = of_others(candidates, fitted)[candidates.asks.key[pairs.ask]]
        if not others.any():
            return self
        asks = np.arange(len(candidates.asks))
        alone = unique(candidates.within(asks, line, off_ns))
        told = np.isin(pairs.ask, alone.ask) & np.isin(pairs.serve, alone.serve)
        pairs = pairs.rows(np.flatnonzero(told | ~others))
        if not len(pairs):
            return None
        return replace(
            self,
            corridor=corridor(candidates, pairs, fitted, self.corridor.ends),
            parts=tuple(parts(candidates, pairs, fitted)),
            pairs=len(pairs),
            certain=pairs,
        )

    def bound_ns(self, line: Line) -> int:
        """How far the truth may be from a line of the corridor, whose pace is one throughout.

        Clocks are slewed, and crystals get warm: where that bends the truth, the fewer
        straight lines fit, the less each of them is it. In a part it is nearly straight.
        """
        reaches = [allowed.reach(line) for allowed in (self.corridor, *self.parts)]
        return max(max(-low, high) for low, high in reaches)


def bound_by_causality(
    asks: Intervals, serves: Intervals, hints: Sequence[Line] = (), *, voting: bool = True
) -> Causality | None:
    """What causality says of the serves' clock in the asks'; None if no pair is certain.

    Keys may repeat, either side may miss rows, and offsets may be of any size.
    ``hints``: lines that other sources offer, tried beside those found by voting,
    and preferred to those that are no better; without ``voting`` there are no others.
    """
    candidates = Candidates(asks, serves)
    if not len(candidates.asks):
        return None
    voted, centre = voted_lines(candidates)
    voted = voted if voting else []
    if not hints and not voted:
        return None
    fit, found = settle(candidates, hints, voted, centre)
    if not fit.corridor:
        return None
    everything = np.arange(len(candidates.asks))
    inside, pairs = certain(candidates, fit.line)
    if not len(pairs):
        return None
    rivals = [rival for rival in found if possible(candidates, pairs, rival.line)]
    return Causality(
        corridor(candidates, pairs, fit.line, fit.corridor.ends),
        tuple(parts(candidates, pairs, fit.line)),
        len(pairs),
        contradiction(candidates, fit.line, fit.corridor),
        ambiguity(len(pairs), inside.asked, [fit.apart_ns(rival) for rival in rivals]),
        tuple(refine(candidates, everything, rival.line).line for rival in rivals),
        inside.asked,
        candidates,
        pairs,
    )


def parts(candidates: Candidates, pairs: Pairs, line: Line) -> list[Corridor]:
    """Of each part of the time the lines that its pairs and its neighbours' allow.

    None where the time is short, or pairs are few.
    """
    pairs = pairs.rows(np.argsort(candidates.serves.begin_ns[pairs.serve], kind="stable"))
    times = candidates.serves.begin_ns[pairs.serve]
    count = min(MOST_PARTS, len(pairs) // PART_PAIRS, int(times[-1] - times[0]) // PART_NS)
    if count < LEAST_PARTS:
        return []
    edges = np.linspace(0, len(pairs) - 1, count + 1).astype(np.int64)
    found = []
    for part in range(count):
        first, last = edges[max(part - 1, 0)], edges[min(part + 2, count)]
        around = pairs.rows(np.arange(first, last + 1))
        own = times[edges[[part, part + 1]]]
        if times[last] - times[first] >= PART_NS and own[1] > own[0]:
            found.append(corridor(candidates, around, line, times[[first, last]]).over(own))
    return found


def possible(candidates: Candidates, pairs: Pairs, line: Line) -> bool:
    """Whether a line leaves the pairs together whose key nothing else has."""
    once = occurs_once(candidates.asks.key)[pairs.ask]
    told = pairs.ask[once & occurs_once(candidates.serves.key)[pairs.serve]]
    broken = len(told) - candidates.within(told, line).asked if len(told) else 0
    return broken < 2 or broken * 2 < len(told)


def ambiguity(pairs: int, served: int, rivals_ns: Sequence[int]) -> str | None:
    if away_ns := min(filter(None, rivals_ns), default=0):
        return f"a clock that is {units.duration(away_ns)} off fits as well"
    if pairs < TOLD_SHARE * served:
        return f"only {pairs} of {served} requests can be told from others of their key"
    return None


def of_others(candidates: Candidates, line: Line) -> NDArray[np.bool_]:
    """Of each key, whether more requests of one side than are lost are not the other side's."""
    asks, serves = candidates.asks, candidates.serves
    inside = candidates.within(np.arange(len(asks)), line)
    begin_ns, end_ns = line(serves.begin_ns), line(serves.end_ns)
    both = max(asks.begin_ns.min(), begin_ns.min()), min(asks.end_ns.max(), end_ns.max())
    found = np.zeros(candidates.keys, np.bool_)
    for key, begin, end, known in (
        (asks.key, asks.begin_ns, asks.end_ns, inside.ask),
        (serves.key, begin_ns, end_ns, inside.serve),
    ):
        during = (begin >= both[0]) & (end <= both[1])
        alone = during & ~np.isin(np.arange(len(key)), known)
        count = np.bincount(key[during], minlength=len(found))
        found |= np.bincount(key[alone], minlength=len(found)) > LOST_SHARE * count
    return found


def most_by_chance(mean: float) -> int:
    """Of what is rare and independent (Poisson's law): more come once in 10,000 times."""
    if mean > MANY:
        return math.ceil(mean + 4 * math.sqrt(mean))
    count, chance = 0, math.exp(-mean)
    known = chance
    while known < 1 - RARELY:
        count += 1
        chance *= mean / count
        known += chance
    return count


def certain(candidates: Candidates, line: Line) -> tuple[Pairs, Pairs]:
    """Every pair that lies within, and of those that nothing else fits, what is surely right.

    Where an ask's own serve was not recorded, another's of the same key may stand in for
    it if that one's ask was not recorded either. It looks like any pair, but may be
    tighter than the truth: as many of the tightest are left out as there may be of them,
    which is more than there are on average.
    """
    asks = np.arange(len(candidates.asks))
    inside = candidates.within(asks, line)
    pairs = unique(inside)
    doubtful, lost = 1 - len(pairs) / inside.asked, 1 - inside.asked / len(asks)
    count = most_by_chance(len(pairs) * doubtful * min(lost, LOST_SHARE))
    loose = np.ones(len(pairs), np.bool_)
    for slack in candidates.slack(pairs, line):
        loose[np.argsort(slack, kind="stable")[:count]] = False
    return inside, Pairs(pairs.ask[loose], pairs.serve[loose])
