# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: whose turn it was at what some spans waited for in, who is behind them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iostrata.columns import Ints, overlapping
from iostrata.model import Crowd, Who
from iostrata.stitch.people import People


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
    """Whose turn it was in which part of some waits."""
    row, turn = overlapping(place, begin_ns, end_ns, turns.place, turns.begin_ns, turns.end_ns)
    begin = np.maximum(begin_ns[row], turns.begin_ns[turn])
    end = np.minimum(end_ns[row], turns.end_ns[turn])
    return span[row], begin, end, turns.who[turn]


def nothing_behind() -> Behind:
    none = np.zeros(0, np.int64)
    return Behind(none, none, none, none, ())
