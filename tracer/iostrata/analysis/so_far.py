# SPDX-License-Identifier: Apache-2.0
"""What an analysis has come to while it goes on, for whoever waits for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from iostrata.analysis.kept import Numbers
from iostrata.analysis.path import Path
from iostrata.columns import Ints
from iostrata.model import Op


@dataclass(frozen=True)
class SoFar:
    """``share``: of what was read, from 0 to 1. ``count``: of the writes (or of what ``op`` says)
    that are in it, ``mean_ns`` of them, and ``held``: which part of their time each segment had."""

    share: float
    op: Op = Op.SYNC
    count: int = 0
    mean_ns: float = 0.0
    held: Mapping[str, float] = field(default_factory=dict)


def nobody(so_far: SoFar) -> None:
    """Hears what there is so far."""


class Tally:
    """Adds up what windows come to, each of which has some writes, and may have them in part.

    ``latency_ns``: of each write. ``pieces``: how many there are in all windows.
    """

    def __init__(self, path: Path, op: Op, latency_ns: Ints, pieces: int) -> None:
        self._layers, self._op, self._latency_ns = path.layers, op, latency_ns
        self._met = np.zeros(len(latency_ns), np.bool_)
        self._count = self._sum_ns = self._done = 0
        self._of, self._held_ns = pieces, Counter[str]()

    def add(self, pieces: int, writes: Ints, time_ns: Mapping[int, Numbers]) -> SoFar:
        """One window's: its pieces, the writes that those are of, and by place the time of each."""
        new = writes[~self._met[writes]]
        self._met[new] = True
        self._count += len(new)
        self._sum_ns += int(self._latency_ns[new].sum())
        self._done += pieces
        for place, times in time_ns.items():
            if layer := self._layers[place]:
                self._held_ns[layer.segment] += int(times.sum())
        held = {segment: ns / max(self._sum_ns, 1) for segment, ns in self._held_ns.items()}
        mean_ns = self._sum_ns / max(self._count, 1)
        return SoFar(self._done / self._of, self._op, self._count, mean_ns, held)
