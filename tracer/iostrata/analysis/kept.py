# SPDX-License-Identifier: Apache-2.0
"""What grows window by window, and is kept until the last one: columns, and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import Ints

FEWEST_ROWS: Final = 1 << 16
NARROW: Final = {np.dtype(np.int32): np.uint16, np.dtype(np.int64): np.uint32}
"""Of each kind of numbers, what is mostly enough for them: one by one they are small."""

Numbers = NDArray[np.integer[Any]]


class Kept:
    """Columns of equal length, of some kinds of numbers.

    In few blocks, each as large as all before it: many small ones that stay, between what windows
    let go of, would keep that from the system. A block has half of its kind's bits while its
    numbers fit.
    """

    def __init__(self, *kinds: type[np.signedinteger[Any]]) -> None:
        self._kinds = [np.dtype(kind) for kind in kinds]
        self._blocks: list[list[Numbers]] = [[] for _ in kinds]
        self._count = self._room = 0

    def extend(self, columns: Sequence[Numbers]) -> None:
        """By as many rows in each, which are copied."""
        done, count = 0, len(columns[0])
        while done < count:
            if not self._room:
                self._room = max(FEWEST_ROWS, self._count)
                for blocks, kind in zip(self._blocks, self._kinds, strict=True):
                    blocks.append(np.empty(self._room, NARROW[kind]))
            some = min(self._room, count - done)
            for blocks, kind, column in zip(self._blocks, self._kinds, columns, strict=True):
                part, place = column[done : done + some], len(blocks[-1]) - self._room
                if not _fits(part, blocks[-1]):
                    blocks[-1] = _widened(blocks[-1], kind, place)
                blocks[-1][place : place + some] = part
            done += some
            self._room -= some
            self._count += some

    def joined(self) -> tuple[NDArray[Any], ...]:
        """All rows, once: nothing is kept twice, and nothing afterwards."""
        found = []
        for blocks, kind in zip(self._blocks, self._kinds, strict=True):
            if blocks:
                blocks[-1] = blocks[-1][: len(blocks[-1]) - self._room]
            found.append(np.concatenate([np.empty(0, kind), *blocks], dtype=kind))
            blocks.clear()
        self._count = self._room = 0
        return tuple(found)


class Sums:
    """One sum of each of so many rows, of int64, kept in half the bits while they fit."""

    def __init__(self, rows: int) -> None:
        self._sums: Numbers = np.zeros(rows, NARROW[np.dtype(np.int64)])

    def add(self, rows: Ints, numbers: Numbers) -> None:
        """To some of the rows, each once."""
        narrow = numbers.dtype == self._sums.dtype == np.uint32 and native.LIBRARY is not None
        if narrow and native.add_narrow(self._sums, rows, numbers):
            return
        sums = self._sums[rows].astype(np.int64) + numbers
        if not _fits(sums, self._sums):
            self._sums = self._sums.astype(np.int64)
        self._sums[rows] = sums

    @property
    def numbers(self) -> Numbers:
        """Of each row; not to be written to."""
        return self._sums


def _fits(numbers: Numbers, block: Numbers) -> bool:
    room = np.iinfo(block.dtype)
    return bool(room.min <= numbers.min(initial=0) and numbers.max(initial=0) <= room.max)


def _widened(block: Numbers, kind: np.dtype[Any], filled: int) -> Numbers:
    """With room for all numbers of the kind; what is not filled takes no memory yet."""
    wide = np.empty(len(block), kind)
    wide[:filled] = block[:filled]
    return wide
