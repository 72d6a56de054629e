# SPDX-License-Identifier: Apache-2.0
"""Columns that grow part by part: what they will come to is not known before the last."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

SPARE: Final = 1.1

Numbers = NDArray[np.uint32]
Times = NDArray[np.uint64]


class Growing:
    """A number and a time of each row: one array of each, with room for what comes, instead of a
    list of small ones: those would all stay in memory until they are joined, and then be there
    twice."""

    def __init__(self) -> None:
        self.numbers, self.times = np.empty(0, np.uint32), np.empty(0, np.uint64)
        self.count = 0

    def make_room(self, more: int, share: float) -> bool:
        """For more rows; whether all are elsewhere now. ``share``: how much of everything has come
        with these, as far as is known.

        Room that nothing comes into takes no memory.
        """
        end = self.count + more
        if end <= len(self.numbers):
            return False
        room, before = int(end / share * SPARE) + 1, self.values
        self.numbers, self.times = np.empty(room, np.uint32), np.empty(room, np.uint64)
        self.numbers[: self.count], self.times[: self.count] = before
        return True

    def extend(self, numbers: Numbers, times: Times, share: float) -> None:
        """By copies. ``share``: as above."""
        self.make_room(len(numbers), share)
        end = self.count + len(numbers)
        self.numbers[self.count : end], self.times[self.count : end] = numbers, times
        self.count = end

    @property
    def values(self) -> tuple[Numbers, Times]:
        """All that there are."""
        return self.numbers[: self.count], self.times[: self.count]
