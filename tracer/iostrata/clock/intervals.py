# SPDX-License-Identifier: Apache-2.0
"""Asks of an upper machine and serves of a lower one, and which lie within which under a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.clock.line import Line
from iostrata.model import Ints

ROUNDING_NS = 1
LEAST_SPAN_NS = 1_000_000
"""Over a shorter time, rounding to ns would be a drift."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """One row an interval: ``key`` (what both machines saw), ``begin_ns``, ``end_ns``: int64."""

    key: Ints
    begin_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: Ints | NDArray[np.bool_] | slice) -> Intervals:
        return Intervals(self.key[rows], self.begin_ns[rows], self.end_ns[rows])


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows of asks and of serves, equal length."""

    ask: Ints
    serve: Ints

    def __len__(self) -> int:
        return len(self.ask)

    def rows(self, rows: Ints) -> Pairs:
        return Pairs(self.ask[rows], self.serve[rows])

    @property
    def asked(self) -> int:
        """How many asks there are, each with one serve or several."""
        return int(np.count_nonzero(np.bincount(self.ask)))


class Candidates:
    """The asks and serves whose key the other side knows: what may belong together.

    ``asks`` in order of begin, ``serves`` of key and begin; the ``keys`` are numbers from 0.
    """

    def __init__(self, asks: Intervals, serves: Intervals) -> None:
        keys = np.intersect1d(asks.key, serves.key)
        self.asks = known(asks, keys)
        self.asks = self.asks.take(np.argsort(self.asks.begin_ns, kind="stable"))
        self.serves = known(serves, keys)
        self.serves = self.serves.take(np.lexsort((self.serves.begin_ns, self.serves.key)))
        self._times = np.sort(self.serves.begin_ns)
        # Key and time in one sorted number: a time is its rank, so that days times keys cannot
        # overflow.
        self._place = self._places(self.serves.key, self.serves.begin_ns)
        self.keys = len(keys)
        self._edges = np.searchsorted(self.serves.key, np.arange(len(keys) + 1))

    def _places(self, keys: Ints, times: Ints) -> Ints:
        places: Ints = keys * (len(self._times) + 1) + np.searchsorted(self._times, times)
        return places

    def span(self, asks: Ints, line: Line) -> Ints:
        """From when to when both machines recorded during some asks, in lower time."""
        asked = np.array((self.asks.begin_ns[asks].min(), self.asks.end_ns[asks].max()))
        begin, end = np.clip(line.inverse(asked), self._times[0], self.serves.end_ns.max())
        return np.array((begin, max(end, begin + LEAST_SPAN_NS)))

    def of_key(self, asks: Ints) -> tuple[Ints, Ints]:
        """The rows of the serves of each ask's key: first, and one after the last."""
        keys = self.asks.key[asks]
        return self._edges[keys], self._edges[keys + 1]

    def begun_within(self, asks: Ints, line: Line, off_ns: int = 0) -> tuple[Ints, Ints]:
        """The rows of the serves of an ask's key that begin within it: first, after the last."""
        back, keys = line.inverse, self.asks.key[asks]
        begin = back(self.asks.begin_ns[asks] - off_ns) - ROUNDING_NS
        end = back(self.asks.end_ns[asks] + off_ns) + ROUNDING_NS + 1
        first = np.searchsorted(self._place, self._places(keys, begin))
        return first, np.searchsorted(self._place, self._places(keys, end))

    def any_within(self, keys: Ints, begin: Ints, end: Ints) -> NDArray[np.bool_]:
        """Whether the first serve of a key that begins within a time also ends within it."""
        row = np.searchsorted(self._place, self._places(keys, begin))
        some = np.minimum(row, len(self._place) - 1)
        found: NDArray[np.bool_] = (row < len(self._place)) & (self.serves.key[some] == keys)
        return found & (self.serves.end_ns[some] <= end)

    def slack(self, pairs: Pairs, line: Line) -> tuple[Ints, Ints]:
        """From the ask's begin to the serve's, and from the serve's end to the ask's."""
        before = line(self.serves.begin_ns[pairs.serve]) - self.asks.begin_ns[pairs.ask]
        after = self.asks.end_ns[pairs.ask] - line(self.serves.end_ns[pairs.serve])
        return before, after

    def within(self, asks: Ints, line: Line, off_ns: int = 0) -> Pairs:
        """Every pair of an ask and a serve of its key that lies within it.

        ``off_ns``: how far the truth may be from the line, either way.
        """
        pairs = every(asks, *self.begun_within(asks, line, off_ns))
        before, after = self.slack(pairs, line)
        inside = (before >= -ROUNDING_NS - off_ns) & (after >= -ROUNDING_NS - off_ns)
        inside &= before + after >= -2 * ROUNDING_NS
        return Pairs(pairs.ask[inside], pairs.serve[inside])


def known(intervals: Intervals, keys: Ints) -> Intervals:
    """Those of some sorted keys, the key replaced by its rank."""
    found = intervals.take(np.isin(intervals.key, keys))
    rank = np.searchsorted(keys, found.key)
    return Intervals(rank, found.begin_ns, found.end_ns)


def every(asks: Ints, first: Ints, last: Ints) -> Pairs:
    """Each ask with each of its rows from ``first`` to before ``last``."""
    counts = np.maximum(last - first, 0)
    begin = np.cumsum(counts) - counts
    rows = np.arange(int(counts.sum())) + np.repeat(first - begin, counts)
    return Pairs(np.repeat(asks, counts), rows)


def unique(pairs: Pairs) -> Pairs:
    """Those where neither side has another: what else fits as well is evidence of nothing."""
    alone = occurs_once(pairs.ask) & occurs_once(pairs.serve)
    return Pairs(pairs.ask[alone], pairs.serve[alone])


def occurs_once(values: Ints) -> NDArray[np.bool_]:
    """Which of some row numbers, or other small ones, are there once only."""
    once: NDArray[np.bool_] = np.bincount(values)[values] == 1
    return once
