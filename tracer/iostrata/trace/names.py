# SPDX-License-Identifier: Apache-2.0
"""Stage trace: thread events in, what a process was called at a time out.

A name holds from when it was told: programs are called after what they execute next from
then on only, and may rename themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, coded, distinct, integers, one_of
from iostrata.foreign import shown
from iostrata.trace.read import Trace

UNKNOWN = "?"
Named = tuple[tuple[str, ...], NDArray[np.int32]]
"""Texts, and of each row the place of its own among them."""


class _Names:
    """Names by number (of a process, a thread) and time."""

    def __init__(self, number: Ints, time_ns: Ints, name: NDArray[np.generic]) -> None:
        self._names = np.append(name, np.array([UNKNOWN], "S16"))
        self._told = AsOf(number, time_ns)

    def at(self, number: Ints, time_ns: Ints) -> tuple[Named, Named]:
        """``fio (7405)`` of each at a time, sorted by number, and which of those it is; and the
        names alone."""
        texts, name = self._texts(), self._name_at(number, time_ns)
        pairs, codes = coded(number * len(texts) + name)
        owners, names = (part.tolist() for part in np.divmod(pairs, len(texts)))
        labels = tuple(
            f"{texts[name]} ({owner})" for owner, name in zip(owners, names, strict=True)
        )
        present, place = coded(pairs % len(texts))
        alone = tuple(texts[name] for name in present.tolist())
        return (labels, codes.astype(np.int32)), (alone, place.astype(np.int32)[codes])

    def _name_at(self, number: Ints, time_ns: Ints) -> Ints:
        row = self._told.at_or_nearest(number, time_ns)
        _, name = np.unique(self._names, return_inverse=True)
        found: Ints = name[row]
        return found

    def _texts(self) -> list[str]:
        return [shown(bytes(name)) for name in distinct(self._names)]


class ProcessNames(_Names):
    """Processes' names over time: their first threads', or where that is not known any thread's."""

    def __init__(self, trace: Trace) -> None:
        threads = trace.points["thread"]
        tgid, time, name = integers(threads["tgid"]), integers(threads["time_ns"]), threads["comm"]
        own = integers(threads["subject_tid"]) == tgid
        if "process" in threads.fields:
            process = threads["process"]
            name = np.where(process != b"", process, name)
            own |= process != b""
        rows = np.flatnonzero(own | ~one_of(tgid, tgid[own]))
        super().__init__(tgid[rows], time[rows], name[rows])


class ThreadNames(_Names):
    """Threads' own names over time."""

    def __init__(self, trace: Trace) -> None:
        threads = trace.points["thread"]
        tid, time = integers(threads["subject_tid"]), integers(threads["time_ns"])
        super().__init__(tid, time, threads["comm"])
