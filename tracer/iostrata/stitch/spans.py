# SPDX-License-Identifier: Apache-2.0
"""Spans: who (an activity or a write), which rank of the stack, from when to when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import Ints, changes, coded, in_order, order_of, ranges
from iostrata.layers import RANK

Ranks = NDArray[np.signedinteger]


@dataclass(frozen=True, eq=False)
class Spans:
    """Columns of equal length: owner (int64 row index), rank, begin and end (int64 ns).

    ``of``: what the span is of, -1: nothing that is told. One machine's: what was asked
    meanwhile of a device or of another machine, as a row of the window's ``Asked``;
    lifted ones: the number of the machine's own span (``View``).
    """

    owner: Ints
    rank: Ranks
    begin_ns: Ints
    end_ns: Ints
    of: Ints

    def __len__(self) -> int:
        return len(self.owner)

    def where(self, keep: NDArray[np.bool_]) -> Spans:
        return self if keep.all() else self.rows(np.flatnonzero(keep))

    def rows(self, rows: Ints) -> Spans:
        return Spans(**{name: column.take(rows) for name, column in vars(self).items()})

    def once(self) -> Spans:
        """Without those that are the same as one before, in the order that they have."""
        if native.LIBRARY is not None and self.rank.dtype == np.int16:
            rows = native.once((self.owner, self.rank, self.begin_ns, self.end_ns, self.of))
            return self if len(rows) == len(self) else self.rows(rows)
        columns = tuple(vars(self).values())
        order = order_of(*columns)
        first = np.logical_or.reduce([changes(column[order]) for column in columns])
        return self.rows(in_order(order[first]))


NO_SPANS = Spans(
    np.zeros(0, np.int64),
    np.zeros(0, np.int16),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
)


class SpanList:
    """Collects spans column by column; owners below 0 and empty spans are not kept."""

    def __init__(self) -> None:
        self._parts: list[Spans] = []

    def add(
        self,
        owner: Ints,
        rank: str | Ranks,
        begin_ns: Ints,
        end_ns: Ints,
        of: Ints | None = None,
    ) -> None:
        numbers = RANK[rank] if isinstance(rank, str) else rank
        if native.LIBRARY is not None and (isinstance(numbers, int) or numbers.dtype == np.int16):
            self.extend(Spans(*native.kept_spans(owner, numbers, begin_ns, end_ns, of)))
            return
        keep = (owner >= 0) & (end_ns > begin_ns)
        if not keep.any():
            return
        ranks = np.full(len(owner), numbers, np.int16) if isinstance(numbers, int) else numbers
        known = np.full(len(owner), -1) if of is None else of
        self._parts.append(Spans(owner, ranks, begin_ns, end_ns, known).where(keep))

    def extend(self, spans: Spans | SpanList) -> None:
        """What another list has, or collected: none of it is to be left out."""
        self._parts += spans._parts if isinstance(spans, SpanList) else [spans]

    def collect(self) -> Spans:
        # Column by column, what is joined is not kept twice: in a crowd, that is most there is.
        parts = [dict(vars(part)) for part in self._parts if len(part)] or [vars(NO_SPANS)]
        self._parts.clear()
        if len(parts) > 1:
            for name in vars(NO_SPANS):
                parts[0][name] = np.concatenate([part.pop(name) for part in parts])
        self._parts.append(Spans(**parts[0]))
        return self._parts[0]


@dataclass(frozen=True, eq=False)
class Edges:
    """Which activity worked for which write, and in which window of the write's time.

    ``activity``, ``write``: row indices; ``begin_ns``/``end_ns``: the activity's spans
    count for the write inside this window only. Many to many: one journal commit
    serves several writes.
    """

    activity: Ints
    write: Ints
    begin_ns: Ints
    end_ns: Ints

    def rows(self, rows: Ints) -> Edges:
        return Edges(**{name: column.take(rows) for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Seen:
    """``ranks``: of each kind of edges, what every rank comes to along them. ``kind``: of each edge
    its row there."""

    ranks: NDArray[np.int16]
    kind: Ints


def seen_as(kind: Ints, seen: Callable[[Ranks, int], Ranks]) -> Seen:
    """``kind``: of each edge; ``seen``: what all ranks come to along those of one."""
    kinds, row = coded(kind)
    every = np.arange(len(RANK), dtype=np.int16)
    ranks = [seen(every, each).astype(np.int16) for each in kinds.tolist()]
    return Seen(np.array(ranks, np.int16).reshape(len(kinds), len(every)), row)


def follow(spans: Spans, edges: Edges, seen: Seen | None = None) -> Spans:
    """The activities' spans as the writes' spans: one copy an edge, clipped to its window.

    ``seen``: what ranks come to along which edges; without it they stay.
    """
    ordered = spans.rows(order_of(spans.owner))
    first = np.searchsorted(ordered.owner, edges.activity, side="left")
    count = np.searchsorted(ordered.owner, edges.activity, side="right") - first
    # What was lifted from other machines has ranks beyond those of one.
    if native.LIBRARY and ordered.rank.dtype == np.int16:
        own = (ordered.rank, ordered.begin_ns, ordered.end_ns, ordered.of)
        led = (first, count, edges.write, edges.begin_ns, edges.end_ns)
        return Spans(*native.follow(own, led, (seen.ranks, seen.kind) if seen else None))
    span = np.repeat(first, count) + ranges(count)
    edge = np.repeat(np.arange(len(edges.activity)), count)
    rank = ordered.rank[span]
    followed = SpanList()
    followed.add(
        edges.write[edge],
        seen.ranks[seen.kind[edge], rank] if seen else rank,
        np.maximum(ordered.begin_ns[span], edges.begin_ns[edge]),
        np.minimum(ordered.end_ns[span], edges.end_ns[edge]),
        ordered.of[span],
    )
    return followed.collect()
