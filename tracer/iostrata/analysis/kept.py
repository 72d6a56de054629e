# SPDX-License-Identifier: Apache-2.0
"""Columns that grow window by window, and are kept until the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FEWEST_ROWS: Final = 1 << 16


class Kept:
    """Columns of equal length, of some kinds of numbers.

    In few blocks, each as large as all before it: many small ones that stay, between what windows
    let go of, would keep that from the system.
    """

    def __init__(self, *kinds: type[np.signedinteger[Any]]) -> None:
        self._blocks: list[list[NDArray[Any]]] = [[np.empty(0, kind)] for kind in kinds]
        self._count = self._room = 0

    def extend(self, columns: Sequence[NDArray[Any]]) -> None:
        """By as many rows in each, which are copied."""
        done, count = 0, len(columns[0])
        while done < count:
            if not self._room:
                self._room = max(FEWEST_ROWS, self._count)
                for blocks in self._blocks:
                    blocks.append(np.empty(self._room, blocks[0].dtype))
            some = min(self._room, count - done)
            for blocks, column in zip(self._blocks, columns, strict=True):
                place = len(blocks[-1]) - self._room
                blocks[-1][place : place + some] = column[done : done + some]
            done += some
            self._room -= some
            self._count += some

    def joined(self) -> tuple[NDArray[Any], ...]:
        """All rows, once: nothing is kept twice, and nothing afterwards."""
        found = []
        for blocks in self._blocks:
            blocks[-1] = blocks[-1][: len(blocks[-1]) - self._room]
            found.append(np.concatenate(blocks))
            del blocks[1:]
        self._count = self._room = 0
        return tuple(found)
