# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: whose turn it was at what some spans waited for in, who is behind them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import Ints, overlapping
from iostrata.model import Crowd, Who
from iostrata.stitch.people import People

MOST_PARTS: Final = 1 << 20
"""Of all waits of a window for one kind of place, and so many of one in any case, at each end."""
FEWEST: Final = 16


@dataclass(frozen=True, eq=False)
class Turns:
    """Who had a place from when to when; those of one place do not overlap. ``who``: a number."""

    place: Ints
    begin_ns: Ints
    end_ns: Ints
    who: Ints


@dataclass(frozen=True, eq=False)
class Behind:
    """Parts of some spans (``span``: the row) and who is behind them, rows of ``names``.

    Of what is in none of them it is not known.
    """

    span: Ints
    begin_ns: Ints
    end_ns: Ints
    who: Ints
    names: tuple[Who | Crowd, ...]

    def __len__(self) -> int:
        return len(self.span)


Parts = tuple[Ints, Ints, Ints, Ints]
"""Columns of ``Behind``: span, begin, end, who."""


def in_order(parts: Sequence[Parts], people: People) -> Behind:
    """As one; what is empty, or nobody's, is left out."""
    span, begin, end, who = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    known = np.flatnonzero((who >= 0) & (end > begin))
    order = known[np.lexsort((begin[known], span[known]))]
    return Behind(span[order], begin[order], end[order], who[order], people.names)


def during(span: Ints, place: Ints, begin_ns: Ints, end_ns: Ints, turns: Turns) -> Parts:
    """Whose turn it was in which part of some waits.

    Where thousands wait for thousands, that is told of what is next to each wait's ends.
    """
    turns = _in_one(turns)
    most = max(MOST_PARTS // (2 * max(len(span), 1)), FEWEST)
    row, turn = overlapping(
        place, begin_ns, end_ns, turns.place, turns.begin_ns, turns.end_ns, most
    )
    begin = np.maximum(begin_ns[row], turns.begin_ns[turn])
    end = np.minimum(end_ns[row], turns.end_ns[turn])
    return span[row], begin, end, turns.who[turn]


def _in_one(turns: Turns) -> Turns:
    """Those that follow each other without a gap, and are of the same."""
    order = np.lexsort((turns.begin_ns, turns.place))
    place, begin, end, who = (
        column[order] for column in (turns.place, turns.begin_ns, turns.end_ns, turns.who)
    )
    goes_on = (place[1:] == place[:-1]) & (who[1:] == who[:-1]) & (begin[1:] == end[:-1])
    first = np.flatnonzero(np.append(True, ~goes_on)[: len(order)])
    last = np.flatnonzero(np.append(~goes_on, True)[: len(order)])
    return Turns(place[first], begin[first], end[last], who[first])


def nothing_behind() -> Behind:
    none = np.zeros(0, np.int64)
    return Behind(none, none, none, none, ())
