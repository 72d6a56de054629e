# SPDX-License-Identifier: Apache-2.0
"""Hops: what served reads on a machine, and what did on those below, in, the furthest place out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import Ints, one_of
from iostrata.stitch import FURTHER, SERVED

# Of these a machine below may know more.
ELSEWHERE: Final = np.array(
    [SERVED.index(name) for name in ("device", "device behind a limit", "server")]
)
DISTANCE: Final = np.argsort(FURTHER)
NUMBERS: Final = 1 << 32


def place_of(code: int) -> tuple[int, int]:
    """Of what served a read: the place in the graph, and the code into ``SERVED``."""
    return divmod(code, len(SERVED))


class Furthest:
    """What served some reads (rows): codes into ``SERVED``, with a place in the graph each.

    ``served``: what their own machine knows, codes into ``SERVED``; empty: they are no reads.
    """

    def __init__(self, served: Ints, place: int) -> None:
        self._own = served + place * len(SERVED)
        self._open = one_of(served, ELSEWHERE)
        self._below = np.full(len(served), -1)
        self._lost = np.zeros(len(served), np.bool_)

    def below(self, read: Ints, served: Ints) -> None:
        """Of parts of some reads: what served each where it was asked for, with its place."""
        if len(self._own):
            number = DISTANCE[served % len(SERVED)] * NUMBERS + served
            np.maximum.at(self._below, read, number)

    def lost(self, read: Ints) -> None:
        """Reads of which a part was found nowhere: that may have been farther than the rest."""
        if len(self._own):
            self._lost[read] = True

    def served(self) -> Ints:
        """What nobody below served, as far as is known, its own machine's device or server did."""
        known = self._open & (self._below >= 0) & ~self._lost
        found: Ints = np.where(known, self._below % NUMBERS, self._own)
        return found
