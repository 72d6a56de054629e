# SPDX-License-Identifier: Apache-2.0
"""Stage trace: file_system events in, what a superblock's number was of at a time out.

The mount table is that of when the recording began, and ended, and of the recorder's own namespace:
what a container mounts, or what is mounted and gone meanwhile, is in no such table; and a number
that has become free is given to the next file system.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from iostrata.columns import AsOf, Ints, distinct, integers
from iostrata.foreign import shown
from iostrata.trace.facts import Met
from iostrata.trace.points import Points


class FileSystems:
    """What was met, by number and time. ``kinds``: different ones; ``at`` tells which of them."""

    def __init__(self, told: Points) -> None:
        columns = told.columns("time_ns", "dev", "type", "below_dev")
        self._number, self._time_ns = integers(columns["dev"]), integers(columns["time_ns"])
        types = (shown(bytes(each)) for each in columns["type"])
        rows = list(map(Met, types, integers(columns["below_dev"]).tolist()))
        self.kinds = tuple(dict.fromkeys(rows))
        place = {kind: number for number, kind in enumerate(self.kinds)}
        self._kind = np.array([place[row] for row in rows], np.int64)

    @cached_property
    def met(self) -> dict[int, tuple[Met, ...]]:
        """Of each number all that were met there, in their order."""
        order = np.argsort(self._time_ns, kind="stable")
        number, kind = self._number[order], self._kind[order]
        return {
            each: tuple(self.kinds[one] for one in dict.fromkeys(kind[number == each].tolist()))
            for each in distinct(number).tolist()
        }

    def at(self, number: Ints, time_ns: Ints) -> Ints:
        """The place in ``kinds`` of what each number was at a time; of numbers that were met."""
        row = AsOf(self._number, self._time_ns).at_or_nearest(number, time_ns)
        found: Ints = self._kind[row]
        return found
