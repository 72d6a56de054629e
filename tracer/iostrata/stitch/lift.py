# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: pieces of one machine in, their spans on it and on all machines below it out.

Each machine is stitched on its own, into spans of its own pieces. A link says
which of its asks were served by which pieces of the machine below; the spans of
those are lifted: into the upper clock, clipped to the ask, and given to the piece
that asked. What is lifted ranks below (deeper than) everything of the upper machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from iostrata.layers import RANK, STACK
from iostrata.stitch.calls import Pieces
from iostrata.stitch.hop import Asks, Hop, Serves
from iostrata.stitch.join import AsOf, Ints, at, ranges
from iostrata.stitch.journal import Commits
from iostrata.stitch.match import Pairs
from iostrata.stitch.spans import Edges, SpanList, Spans, follow
from iostrata.stitch.stitch import Asked, stitch
from iostrata.stitch.window import window_of
from iostrata.trace.read import Trace

# Ranks of spans that wait for something below the machine.
ASKING = np.array([rank for name, rank in RANK.items() if name.startswith(("device.", "rpc.call"))])


class Clock(Protocol):
    """How a lower machine's clock relates to the upper's, and how far that may be off."""

    @property
    def bound_ns(self) -> int: ...

    def to_upper(self, times: Ints) -> Ints: ...

    def to_lower(self, times: Ints) -> Ints: ...


@dataclass(frozen=True)
class Node:
    """One machine on the way. ``depth``: 0 for the one with the workload."""

    trace: Trace
    pieces: Pieces
    commits: Commits
    depth: int
    floor: str = "syscall"
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Link:
    """The way from one machine to the next.

    ``begin_ns``, ``end_ns``: of the serves, in the upper's clock. ``agents``: the
    processes that served any of the asks.
    """

    hop: Hop
    upper: Trace
    lower: Node
    clock: Clock
    asks: Asks
    serves: Serves
    begin_ns: Ints
    end_ns: Ints
    pairs: Pairs
    agents: Ints

    def ask_of(self, asked: Asked) -> Ints:
        """The row of the asks that each of a window's asked is, -1: it is not of this hop."""
        found = AsOf(self.asks.identity, self.asks.begin_ns).at_or_before(asked.key, asked.begin_ns)
        found = np.where(at(self.asks.begin_ns, found) == asked.begin_ns, found, -1)
        return np.where((found >= 0) & self.pairs.crossing[found], found, -1)

    def served(self, ask: Ints) -> tuple[Ints, Ints]:
        """All (row of ``ask``, row of the serves) of some asks."""
        first = np.searchsorted(self.pairs.ask, ask, side="left")
        count = np.searchsorted(self.pairs.ask, ask, side="right") - first
        row = np.repeat(np.arange(len(ask)), count)
        return row, self.pairs.serve[np.repeat(first, count) + ranges(count)]


@dataclass(frozen=True)
class Held:
    """Asks as the pieces waited for them: one row each time one did.

    ``owner``: row of the piece; ``ask``: row of the link's asks; ``begin_ns``,
    ``end_ns``: when it waited for it; ``first_ns``, ``last_ns``: when the first
    serve began and the last one ended, in this machine's clock, -1 without any.
    """

    owner: Ints
    ask: Ints
    begin_ns: Ints
    end_ns: Ints
    first_ns: Ints
    last_ns: Ints


@dataclass(frozen=True)
class Lifted:
    """``spans``: of the given pieces (``owner``: the row), ranks of all machines.

    ``unfollowed``: pieces that asked something of which nothing was found below.
    """

    spans: Spans
    unfollowed: NDArray[np.bool_]
    ties: Counter[str]


def level(depth: int) -> int:
    """What is added to the ranks of a machine at that depth."""
    return depth * len(STACK)


def lift(node: Node, rows: Ints) -> Lifted:
    """The spans of some of the node's pieces, on this machine and below."""
    window = window_of(node.trace, node.pieces.rows(rows), node.commits, node.floor)
    found = stitch(window)
    unfollowed = np.zeros(len(rows), np.bool_)
    ties, spans = Counter(found.ties), SpanList()
    _extend(spans, found.spans, node.depth)
    asking = found.spans.where(np.isin(found.spans.rank, ASKING) & (found.spans.ask >= 0))
    for link in node.links:
        ask = at(link.ask_of(found.asked), asking.ask)
        mine = np.flatnonzero(ask >= 0)
        _through(link, asking.rows(mine), ask[mine], spans, unfollowed, ties)
        _extend(spans, link.hop.context(link, window), link.lower.depth)
    return Lifted(spans.collect(), unfollowed, ties)


def _through(
    link: Link,
    asking: Spans,
    ask: Ints,
    spans: SpanList,
    unfollowed: NDArray[np.bool_],
    ties: Counter[str],
) -> None:
    """Adds what became of the asks below, and marks the pieces of those that nothing served."""
    row, serve = link.served(ask)
    first, last = np.full(len(ask), np.iinfo(np.int64).max), np.full(len(ask), -1)
    np.minimum.at(first, row, link.begin_ns[serve])
    np.maximum.at(last, row, link.end_ns[serve])
    held = Held(
        asking.owner, ask, asking.begin_ns, asking.end_ns, np.where(last >= 0, first, -1), last
    )
    unfollowed[asking.owner[(last < 0) & ~link.asks.shared[ask]]] = True
    _extend(spans, _given(link.hop.crossing(link, held), held.owner), link.lower.depth)
    if not len(serve):
        return
    pieces, activity = np.unique(link.serves.piece[serve], return_inverse=True)
    below = lift(link.lower, pieces)
    edges = Edges(activity, asking.owner[row], asking.begin_ns[row], asking.end_ns[row])
    lowered = replace(
        below.spans,
        begin_ns=link.clock.to_upper(below.spans.begin_ns),
        end_ns=link.clock.to_upper(below.spans.end_ns),
        ask=np.full(len(below.spans), -1),
    )
    spans.extend(follow(lowered, edges))
    unfollowed[asking.owner[row[below.unfollowed[activity]]]] = True
    ties += below.ties


def _given(spans: Spans, owner: Ints) -> Spans:
    return replace(spans, owner=owner[spans.owner])


def _extend(spans: SpanList, more: Spans, depth: int) -> None:
    spans.extend(replace(more, rank=(more.rank + level(depth)).astype(np.int16)))
