# SPDX-License-Identifier: Apache-2.0
"""Export: a path and a stretch of its top machine's time in, each machine's clock out.

Perfetto converts a time of another clock by the last snapshot before it, as if
both ran alike. So there are as many snapshots as the drift between them needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from iostrata.columns import Ints
from iostrata.model import Writes

if TYPE_CHECKING:
    from iostrata.analysis import Path, Prepared

CONVERSION_NS: Final = 20
"""How far a conversion may be off, unless that takes more than ``MOST_SNAPSHOTS``."""
MOST_SNAPSHOTS: Final = 10_000


def first_times(found: Prepared, rows: Ints, times: Ints) -> Ints:
    """Times of each write's own machine's clock in the path's first machine's."""
    machine = found.writes.codes["machine"][rows]
    first = found.path.members[0].trace
    for top in found.tops:
        if top.trace is not first:
            mine = machine == found.writes.machines.index(top.trace.machine)
            times = np.where(mine, found.path.times(times, top.trace, first), times)
    return times


def by_first_clock(found: Prepared) -> Writes:
    """The writes, their times by the path's first machine's clock."""
    writes, rows = found.writes, np.arange(len(found.writes))
    begin, end = (first_times(found, rows, times) for times in (writes.begin_ns, writes.end_ns))
    return replace(writes, begin_ns=begin, end_ns=end)


@dataclass(frozen=True, eq=False)
class MachineClock:
    """``own_ns``, ``top_ns``: the same instants by the machine's clock and by the top one's."""

    own_ns: Ints
    top_ns: Ints

    def of(self, own_ns: Ints) -> Ints:
        """The machine's times as they are to be told, so that conversion keeps their order.

        A clock that is faster is converted to more than the next snapshot, just before it.
        """
        last = np.clip(np.searchsorted(self.own_ns, own_ns, side="right") - 1, 0, None)
        following = np.append(np.diff(self.top_ns), np.iinfo(np.int64).max - self.own_ns[-1])
        told: Ints = np.minimum(own_ns, self.own_ns[last] + following[last])
        return told


def clock_of(path: Path, member: int, begin_ns: int, end_ns: int) -> MachineClock:
    """The clock of the path's n-th machine for some of the top machine's time."""
    edges = np.array([begin_ns, end_ns])
    own_begin, own_end = own_times(path, member, edges).tolist()
    drift_ns = abs((own_end - own_begin) - (end_ns - begin_ns))
    steps = min(-(-drift_ns // CONVERSION_NS), MOST_SNAPSHOTS)
    top_ns = np.linspace(begin_ns, end_ns, max(steps, 1), endpoint=False).astype(np.int64)
    return MachineClock(own_times(path, member, top_ns), top_ns)


def own_times(path: Path, member: int, top_ns: Ints) -> Ints:
    """Times of the first machine's clock in that of the n-th."""
    return path.times(top_ns, path.members[0].trace, path.members[member].trace)
