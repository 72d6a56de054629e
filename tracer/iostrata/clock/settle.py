# SPDX-License-Identifier: Apache-2.0
"""Asks, serves and lines that may be right to the line under which most asks are served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iostrata.clock.corridor import Corridor, corridor
from iostrata.clock.intervals import ROUNDING_NS, Candidates, Pairs, unique
from iostrata.clock.line import Line
from iostrata.model import Ints

FIRST_ASKS = 4
DOUBT = 1024
"""Rivals are all followed over DOUBT / n of them for n asks: in the end there is one."""
ROUNDS = 3
RIVAL_SHARE = 0.9
UNLUCKY = 2
ALIKE = 1.2
"""Spreads whose ratio is smaller say nothing: pauses would make it 1.4 and more."""


SAME_NS = 64
"""Lines that are nearer everywhere are one: nothing that is looked at tells them."""
NOWHERE = np.zeros(2, np.int64)


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

    def apart_ns(self, other: Fit) -> int:
        """How far two lines are from each other if no corridor holds both, else 0."""
        if not self.corridor or not other.corridor:
            return 0
        ends = self.corridor.ends
        apart = int(np.abs(self.line(ends) - other.line(ends)).min())
        return apart if apart > self.corridor.bound_ns + other.corridor.bound_ns else 0


def settle(
    candidates: Candidates, hints: Sequence[Line], voted: Sequence[Line], centre: int
) -> tuple[Fit, tuple[Fit, ...]]:
    """The best line over all asks, begun from few, where drift has no effect yet.

    Also the others that nothing told from the best. ``hints``: others know these over all asks:
    the middle of what few allow may lead away from them.
    """
    total, size = len(candidates.asks), FIRST_ASKS
    lines = [*hints, *voted]
    rivals: list[Fit] = []
    while True:
        begin = min(max(0, centre - size // 2), max(0, total - size))
        asks = np.arange(begin, min(begin + size, total))
        if size >= total:
            lines = [*lines, *hints]
        fits = best(distinct([refine(candidates, asks, line) for line in lines]))
        if len(fits) > 1:
            rivals = rivals_of(fits)
        if size >= total:
            fit = widen(candidates, fits[0])
            others = [refine(candidates, asks, rival.line) for rival in rivals]
            others = [other for other in best([fit, *others]) if other is not fit]
            return fit, tuple(rivals_of([fit, *others]))
        lines = [fit.line for fit in fits[: max(1, DOUBT // size)]]
        size *= 2


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
        line, served = allowed.middle, inside.asked
        fit = Fit(line, allowed, len(pairs), served, spread_ns(candidates, pairs, line))
    return fit


def widen(candidates: Candidates, fit: Fit) -> Fit:
    """Wins the pairs that the middle just misses, and other lines of the corridor do not.

    Whatever line of the corridor is taken, the pairs won so far are right under it.
    """
    asks = np.arange(len(candidates.asks))
    while fit.corridor:
        missed = np.setdiff1d(asks, candidates.within(asks, fit.line).ask)
        lines = fit.corridor.outermost
        won = [candidates.within(missed, line).asked for line in lines]
        wider = refine(candidates, asks, lines[int(np.argmax(won))]) if any(won) else fit
        if wider.pairs <= fit.pairs or wider.served <= fit.served:
            break
        fit = wider
    return fit


def spread_ns(candidates: Candidates, pairs: Pairs, line: Line) -> float:
    return sum(
        float(np.abs(slack - np.median(slack)).mean()) for slack in candidates.slack(pairs, line)
    )


def best(fits: Sequence[Fit]) -> list[Fit]:
    """Those under which nearly the most asks are served: first all that are as steady as any."""
    most = max(fit.served for fit in fits)
    rivals = [fit for fit in fits if no_less(fit.served, most)]
    alike = steady_ns(rivals)
    return sorted(rivals, key=lambda fit: max(fit.spread_ns, alike))


def no_less(served: int, most: int) -> bool:
    """Whether so many asks are nearly the most that are served under any line."""
    return served >= RIVAL_SHARE * most - UNLUCKY


def distinct(fits: Sequence[Fit]) -> list[Fit]:
    """Without those that came to the same line as another."""
    found: dict[tuple[int, ...], Fit] = {}
    for fit in fits:
        ends = fit.corridor.ends if fit.corridor else NOWHERE
        found.setdefault((fit.served, *(fit.line(ends) // SAME_NS - ends // SAME_NS).tolist()), fit)
    return list(found.values())


def steady_ns(fits: Sequence[Fit]) -> float:
    """The spread up to which nothing tells fits from each other."""
    return ALIKE * min(fit.spread_ns for fit in fits) + ROUNDING_NS


def rivals_of(fits: Sequence[Fit]) -> list[Fit]:
    """The others than the first that may be the right one as well."""
    alike = steady_ns(fits)
    return [fit for fit in fits[1:] if fit.spread_ns <= alike and fits[0].apart_ns(fit)]
