# SPDX-License-Identifier: Apache-2.0
"""Parts of columns in, whole columns out: what is one number in all of them takes the room of that.

A workload has mostly one device, and does not fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class _Part(NamedTuple):
    """``one``: of each column that has one number there, that."""

    rows: int
    one: Mapping[str, Any]


class Filled:
    """Columns of so many rows at most, filled a part at a time, in any order, by any thread."""

    def __init__(self, kinds: Mapping[str, np.dtype[Any]], rows: int) -> None:
        # Room that nothing comes into takes no memory.
        self._columns = {name: np.empty(rows, kind) for name, kind in kinds.items()}
        self._parts: dict[int, _Part] = {}

    def room(self, rows: int) -> dict[str, NDArray[Any]]:
        """For a part, which its columns may be put from."""
        return {name: np.empty(rows, column.dtype) for name, column in self._columns.items()}

    def put(self, begin: int, some: Mapping[str, NDArray[Any]]) -> None:
        """A part, of no more rows than there are before the next one's ``begin``."""
        one, rows = {}, 0
        for name, column in self._columns.items():
            told, rows = some[name], len(some[name])
            if rows and told[0] == told[-1] and bool((told == told[0]).all()):
                one[name] = told[0]
            else:
                column[begin : begin + rows] = told
        self._parts[begin] = _Part(rows, one)

    def columns(self) -> dict[str, NDArray[Any]]:
        """All parts, one behind the other."""
        return {name: self._whole(name, column) for name, column in self._columns.items()}

    def _whole(self, name: str, column: NDArray[Any]) -> NDArray[Any]:
        parts = [(begin, part) for begin, part in sorted(self._parts.items()) if part.rows]
        count = sum(part.rows for _, part in parts)
        values = {part.one.get(name) for _, part in parts}
        if len(values) == 1 and None not in values:
            return np.broadcast_to(column.dtype.type(*values), count)
        end = 0
        for begin, part in parts:
            place = slice(end, end + part.rows)
            if name in part.one:
                column[place] = part.one[name]
            elif end < begin:
                column[place] = column[begin : begin + part.rows]
            end += part.rows
        return column[:end]
