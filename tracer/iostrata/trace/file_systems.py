# SPDX-License-Identifier: Apache-2.0
"""Stage trace: file_system events in, what a superblock's number was of at a time out.

The mount table is that of when the recording began, and ended, and of the recorder's own namespace:
what a container mounts, or what is mounted and gone meanwhile, is in no such table; and a number
that has become free is given to the next file system.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, distinct, integers
from iostrata.foreign import shown
from iostrata.trace.points import Points

Types = NDArray[np.object_]


class FileSystems:
    """Their types, by number and time, as they were met."""

    def __init__(self, told: Points) -> None:
        columns = told.columns("time_ns", "dev", "type")
        self._number, self._time_ns = integers(columns["dev"]), integers(columns["time_ns"])
        self._types: Types = np.array([shown(bytes(each)) for each in columns["type"]], object)

    @cached_property
    def met(self) -> dict[int, tuple[str, ...]]:
        """Of each number all types that were met there, in their order."""
        order = np.argsort(self._time_ns, kind="stable")
        number, types = self._number[order], self._types[order]
        return {
            each: tuple(dict.fromkeys(types[number == each].tolist()))
            for each in distinct(number).tolist()
        }

    def at(self, number: Ints, time_ns: Ints) -> Types:
        """The type of each number at a time; of numbers that were met."""
        row = AsOf(self._number, self._time_ns).at_or_nearest(number, time_ns)
        types: Types = self._types[row]
        return types
