# SPDX-License-Identifier: Apache-2.0
"""Asks of one machine and serves of another to all lines on which each serve lies within its ask.

Nothing but causality is used: what was served began after it was asked for, and ended
before the asker had it back. It needs no common clock, and bounds every other source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iostrata import units
from iostrata.clock.corridor import Corridor, corridor
from iostrata.clock.intervals import Candidates, Intervals, Pairs, every, occurs_once, unique
from iostrata.clock.line import Line
from iostrata.clock.vote import voted_lines
from iostrata.model import Ints

FIRST_ASKS = 4
DOUBT = 1024
"""Rivals are all followed over DOUBT / n of them for n asks: in the end there is one."""
ROUNDS = 3
RIVAL_SHARE = 0.9
UNLUCKY = 2
MISPAIRED_SHARE = 0.02
"""Of the pairs, those that may contradict the others without any clock being to blame."""
TIED_SHARE = 0.5
"""Of the asks during the serves, those that must be served: else these machines never met."""


@dataclass(frozen=True)
class Causality:
    """``corridor``: the lines that ``pairs`` pairs allow; ``contradiction``: see Alignment."""

    corridor: Corridor
    pairs: int
    contradiction: str | None


@dataclass(frozen=True)
class Fit:
    """A line, and the pairs that it and all of its corridor put right.

    ``served``: asks with a serve within them, be it one of several. ``spread_ns``:
    how much the slack between asks and serves varies. Where writes follow each other
    like clockwork, to pair each ask with the next one's serve puts about as many
    right; but then the pauses between the writes vary the slack too.
    """

    line: Line
    corridor: Corridor | None = None
    pairs: int = 0
    served: int = 0
    spread_ns: float = np.inf


def bound_by_causality(
    asks: Intervals, serves: Intervals, hints: Sequence[Line] = ()
) -> Causality | None:
    """What causality says of the serves' clock in the asks'; None if nothing is tied at all.

    Keys may repeat, either side may miss rows, and offsets may be of any size.
    ``hints``: lines that other sources offer, tried beside those found by voting.
    """
    candidates = Candidates(asks, serves)
    if not len(candidates.asks):
        return None
    voted, centre = voted_lines(candidates)
    fit = settle(candidates, [*hints, *voted], centre)
    if fit is None or fit.corridor is None:
        return None
    return Causality(fit.corridor, fit.pairs, contradiction(candidates, fit))


def settle(candidates: Candidates, lines: Sequence[Line], centre: int) -> Fit | None:
    """The best line over all asks, begun from few, where drift has no effect yet."""
    total, size = len(candidates.asks), FIRST_ASKS
    while lines:
        begin = min(max(0, centre - size // 2), max(0, total - size))
        asks = np.arange(begin, min(begin + size, total))
        fits = best([refine(candidates, asks, line) for line in lines])
        if size >= total:
            return fits[0]
        lines = [fit.line for fit in fits[: max(1, DOUBT // size)]]
        size *= 2
    return None


def refine(candidates: Candidates, asks: Ints, line: Line) -> Fit:
    """The middle of all lines that the pairs of this one allow, while that makes more pairs.

    A line fits its own pairs, and the middle of their corridor fits them too, so that
    pairs are only ever won.
    """
    fit = Fit(line)
    for _ in range(ROUNDS):
        inside = candidates.within(asks, fit.line)
        pairs = unique(inside)
        if len(pairs) <= fit.pairs:
            break
        allowed = corridor(candidates, pairs, fit.line, candidates.span(asks, fit.line))
        line, served = allowed.middle, len(np.unique(inside.ask))
        fit = Fit(line, allowed, len(pairs), served, spread(candidates, pairs, line))
    return fit


def spread(candidates: Candidates, pairs: Pairs, line: Line) -> float:
    return sum(
        float(np.abs(slack - np.median(slack)).mean()) for slack in candidates.slack(pairs, line)
    )


def best(fits: Sequence[Fit]) -> list[Fit]:
    """Those under which nearly the most asks are served, the steadiest first."""
    most = max(fit.served for fit in fits)
    rivals = (fit for fit in fits if fit.served >= RIVAL_SHARE * most - UNLUCKY)
    return sorted(rivals, key=lambda fit: fit.spread_ns)


def contradiction(candidates: Candidates, fit: Fit) -> str | None:
    """Why the pairs cannot all be true with any one line, if so."""
    line, asks = fit.line, np.arange(len(candidates.asks))
    inside = candidates.within(asks, line)
    by_ns = violations(candidates, line, inside)
    if len(by_ns) > MISPAIRED_SHARE * (len(by_ns) + fit.pairs):
        return (
            f"{len(by_ns)} of {len(by_ns) + fit.pairs} requests were served before they were sent, "
            f"or after they were answered, by up to {units.duration(float(by_ns.max()))}, "
            "with any steady clock"
        )
    first, last = line(fit.corridor.ends) if fit.corridor else (0, 0)
    during = (candidates.asks.begin_ns >= first) & (candidates.asks.end_ns <= last)
    served = np.isin(np.flatnonzero(during), inside.ask)
    if served.sum() < TIED_SHARE * len(served):
        return f"only {served.sum()} of {len(served)} requests found who served them"
    return None


def violations(candidates: Candidates, line: Line, inside: Pairs) -> Ints:
    """By how much serves stick out of the asks that must be theirs, ns; one a pair.

    Theirs is one that overlaps, or the only one of the key, as long as neither
    side has a better one.
    """
    asks = np.setdiff1d(np.arange(len(candidates.asks)), inside.ask)
    first, last = candidates.begun_within(asks, line)
    edge, after = candidates.of_key(asks)
    near = every(asks, np.maximum(first - 1, edge), np.minimum(last + 1, after))
    before, behind = candidates.slack(near, line)
    begin, end = candidates.asks.begin_ns[near.ask], candidates.asks.end_ns[near.ask]
    overlaps = (before < end - begin) & (behind < end - begin)
    alone = occurs_once(candidates.asks.key)[near.ask]
    alone &= occurs_once(candidates.serves.key)[near.serve]
    theirs = (overlaps | alone) & ~np.isin(near.serve, inside.serve)
    by_ns = np.maximum(-before, -behind)[theirs]
    # An ask between two such serves counts once, by the nearer.
    order = np.lexsort((by_ns, near.ask[theirs]))
    _, one = np.unique(near.ask[theirs][order], return_index=True)
    nearest: Ints = by_ns[order][one]
    return nearest
