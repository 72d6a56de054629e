# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: whose turn it was at what some spans waited for in, who is behind them out.

Where thousands wait for thousands that is more than all else that is known of a window: it is told
of some spans at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import Ints, order_of, overlapping
from iostrata.model import Crowd, Who
from iostrata.stitch.people import People

MOST_PARTS: Final = 1 << 20
"""Of all waits of a window for one kind of place, and so many of one in any case, at each end."""
FEWEST: Final = 16
NOTHING: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Turns:
    """Who had a place from when to when; those of one place do not overlap. ``who``: a number."""

    place: Ints
    begin_ns: Ints
    end_ns: Ints
    who: Ints


Kinds = NDArray[np.uint8]
Parts = tuple[Ints, Ints, Ints, Ints]
"""Of spans: which, from when to when, and the number of who is behind that."""


@dataclass(frozen=True, eq=False)
class Behind:
    """Who is behind some spans, of whom it is told.

    ``find``: of some of the spans (rows), their parts: see ``of``. ``kinds``: of each span, 0 if
    nothing is told of it; None: it is of all.
    """

    people: People
    find: Callable[[Ints, Ints | None], Iterable[Parts]]
    kinds: Kinds | None = None

    @property
    def names(self) -> tuple[Who | Crowd, ...]:
        """Of those that were found until now, by number."""
        return self.people.names

    def of(self, rows: Ints, whose: Ints | None = None) -> Parts:
        """Who is behind which part of some spans: their places in ``rows``, in any order.

        Of what is in none of the parts it is not known; none is empty. ``whose``: of each of them,
        parts of those with the same number, not below 0, may be told of any of them, and once.
        """
        parts = [(NOTHING, NOTHING, NOTHING, NOTHING), *self.find(rows, whose)]
        span, begin, end, who = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        known = np.flatnonzero((who >= 0) & (end > begin))
        return span[known], begin[known], end[known], who[known]


def most_of(spans: int, waits: Callable[[], int]) -> int:
    """Of how many turns each wait of a window is told, at each of its ends.

    ``spans``: that wait; ``waits``: how many times, together, which is told only where it matters.
    """
    if spans < MOST_PARTS // (2 * FEWEST):
        spans = waits()
    return max(MOST_PARTS // (2 * max(spans, 1)), FEWEST)


def during(
    span: Ints,
    place: Ints,
    begin_ns: Ints,
    end_ns: Ints,
    turns: Turns,
    most: int,
    whose: Ints | None = None,
) -> Parts:
    """Whose turn it was in which part of some waits. ``most``: as above; turns: as ``in_one``;
    ``whose``: of each wait, as in ``Behind.of``."""
    if not len(turns.place):
        return turns.place, turns.begin_ns, turns.end_ns, turns.who
    waits, theirs = (place, begin_ns, end_ns), (turns.place, turns.begin_ns, turns.end_ns)
    if whose is not None and native.LIBRARY is not None:
        found = native.turns_told(whose, waits, theirs, most)
        if found:
            row, begin, end, turn = found
            return span[row], begin, end, turns.who[turn]
    row, turn = overlapping(*waits, *theirs, most)
    begin = np.maximum(begin_ns[row], turns.begin_ns[turn])
    end = np.minimum(end_ns[row], turns.end_ns[turn])
    return span[row], begin, end, turns.who[turn]


def in_one(turns: Turns) -> Turns:
    """By place and time; what follows without a gap, and is of the same, as one."""
    order = order_of(turns.place, turns.begin_ns)
    place, begin, end, who = (
        column[order] for column in (turns.place, turns.begin_ns, turns.end_ns, turns.who)
    )
    goes_on = (place[1:] == place[:-1]) & (who[1:] == who[:-1]) & (begin[1:] == end[:-1])
    first = np.flatnonzero(np.append(True, ~goes_on)[: len(order)])
    last = np.flatnonzero(np.append(~goes_on, True)[: len(order)])
    return Turns(place[first], begin[first], end[last], who[first])
