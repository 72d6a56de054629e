# SPDX-License-Identifier: Apache-2.0
"""Stage trace: thread events in, what a process was called at a time out.

A name holds from when it was told: programs are called after what they execute next from
then on only, and may rename themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, integers
from iostrata.foreign import shown
from iostrata.trace.read import Trace

UNKNOWN = "?"


class ProcessNames:
    """Processes' names over time: their first threads', or where that is not known any thread's."""

    def __init__(self, trace: Trace) -> None:
        threads = trace.points["thread"]
        tgid, time, name = integers(threads["tgid"]), integers(threads["time_ns"]), threads["comm"]
        own = integers(threads["subject_tid"]) == tgid
        if "process" in threads.fields:
            process = threads["process"]
            name = np.where(process != b"", process, name)
            own |= process != b""
        rows = np.flatnonzero(own | ~np.isin(tgid, tgid[own]))
        self._names = np.append(name[rows], np.array([UNKNOWN], "S16"))
        self._told = AsOf(tgid[rows], time[rows])

    def labels(self, tgid: Ints, time_ns: Ints) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """``fio (7405)`` of each process at a time, sorted by number, and which of those it is."""
        row = self._told.at_or_before(tgid, time_ns)
        # What was told of it later only is what it was called before, as far as is known.
        row = np.where(row >= 0, row, self._told.at_or_after(tgid, time_ns))
        _, name = np.unique(self._names, return_inverse=True)
        pairs, codes = np.unique(np.stack([tgid, name[row]]), axis=1, return_inverse=True)
        first = np.unique(name, return_index=True)[1]
        labels = [
            f"{shown(bytes(self._names[first[number]]))} ({process})"
            for process, number in pairs.T.tolist()
        ]
        return tuple(labels), codes.reshape(-1).astype(np.int32)
