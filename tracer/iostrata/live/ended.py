# SPDX-License-Identifier: Apache-2.0
"""Live: the ends of system calls in, how many made something durable, by what they were, out.

Of a busy second only a part is analysed, but of all of it these are counted. A kind is a method
and about how long its call took: of a write that was analysed it is known how many ended like it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, distinct, one_of
from iostrata.stitch import simply_durable

UNKNOWN: Final = -1
"""The kind of a write that no system call ended, or a rare one."""
LENGTHS: Final = 64
DURABLE: Final = np.dtype(
    [("time_ns", "<i8"), ("took_ns", "<i8"), ("kind", "<i4"), ("tgid", "<u4")]
)


class Kind(NamedTuple):
    """How many calls there were of it, and for how long in all."""

    calls: int
    time_ns: int


def durable_of(calls: NDArray[Any]) -> NDArray[np.void]:
    """What is kept of events of calls' ends: of those that made something durable, ``DURABLE``."""
    rows, method = simply_durable(calls)
    found = np.empty(len(rows), DURABLE)
    found["time_ns"], found["tgid"] = calls["time_ns"][rows], calls["tgid"][rows]
    found["took_ns"] = found["time_ns"] - calls["enter_ns"][rows].astype(np.int64)
    # None is twice as long as another of its kind.
    length = np.log2(np.maximum(found["took_ns"], 1)).astype(np.int64)
    found["kind"] = method * LENGTHS + length
    return found


class Ended:
    """``durable``: of all that was recorded in some time; ``others``: whose does not count."""

    def __init__(self, durable: NDArray[np.void], others: Ints) -> None:
        rows = np.flatnonzero(~one_of(durable["tgid"], others))
        rows = rows[np.argsort(durable["time_ns"][rows], kind="stable")]
        self._end_ns, self._took_ns = durable["time_ns"][rows], durable["took_ns"][rows]
        self._kind = durable["kind"][rows].astype(np.int64)

    def kinds(self) -> dict[int, Kind]:
        """All that there are."""
        found = {}
        for number in distinct(self._kind).tolist():
            took_ns = self._took_ns[self._kind == number]
            found[number] = Kind(len(took_ns), int(took_ns.sum()))
        return found

    def kind_of(self, end_ns: Ints) -> Ints:
        """Of writes, by when they ended."""
        row = np.searchsorted(self._end_ns, end_ns)
        told = np.append(self._end_ns, -1)[row] == end_ns
        return np.where(told, np.append(self._kind, UNKNOWN)[row], UNKNOWN)
