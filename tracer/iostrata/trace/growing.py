# SPDX-License-Identifier: Apache-2.0
"""A column that grows part by part: what it will come to is not known before the last."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SPARE: Final = 1.1


class Growing:
    """One array, with room for what comes, instead of a list of small ones: those would all stay in
    memory until they are joined, and then be there twice."""

    def __init__(self, first: NDArray[Any]) -> None:
        self._room, self._count = first, len(first)

    def extend(self, part: NDArray[Any], share: float) -> None:
        """By a copy of the part. ``share``: how much of all has come with it, as far as is known.

        Room that nothing comes into takes no memory.
        """
        end = self._count + len(part)
        if end > len(self._room):
            room = np.empty(int(end / share * SPARE) + 1, self._room.dtype)
            room[: self._count] = self._room[: self._count]
            self._room = room
        self._room[self._count : end] = part
        self._count = end

    @property
    def values(self) -> NDArray[Any]:
        """All that there is."""
        return self._room[: self._count]
