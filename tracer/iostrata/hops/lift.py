# SPDX-License-Identifier: Apache-2.0
"""Hops: pieces of one machine in, their spans on it and on all machines below it out.

Each machine is stitched on its own, into spans of its own pieces. A link says
which of its asks were served by which pieces of the machine below; the spans of
those are lifted: into the upper clock, clipped to the ask, and given to the piece
that asked. What is lifted ranks below (deeper than) everything of the upper machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from iostrata.columns import Ints, at
from iostrata.hops.hop import Held, Link, Node
from iostrata.layers import RANK, STACK
from iostrata.stitch.audit import Audit
from iostrata.stitch.spans import Edges, SpanList, Spans, follow
from iostrata.stitch.stitch import stitch
from iostrata.stitch.window import Window, window_of

# Ranks of spans that wait for something below the machine.
ASKING = np.array([number for number, rank in enumerate(STACK) if rank.asks])


@dataclass(frozen=True)
class View:
    """What one machine's own events say about some of its pieces.

    ``rows``: of the node's pieces, which are the window's. ``spans``: of the window's
    pieces, in this machine's clock; the n-th has the number ``first`` + n.
    """

    node: Node
    rows: Ints
    window: Window
    spans: Spans
    first: int


@dataclass(frozen=True)
class Lifted:
    """``spans``: of the given pieces (``owner``: the row), ranks of all machines.

    ``Spans.of``: the number of the span that this one is a copy of, on its own
    machine; of a way between two machines, of the upper one's span that waits for it.
    ``views``: where those are, by number. ``audits``: of each machine's part of it.
    """

    spans: Spans
    views: tuple[View, ...]
    ties: Counter[str]
    audits: tuple[Audit, ...]


def level(depth: int) -> int:
    """What is added to the ranks of a machine at that depth."""
    return depth * len(STACK)


def way_to(top: Node, depth: int) -> tuple[Link, ...]:
    """The links from the top machine down to the one at that depth."""
    for link in top.links:
        if link.lower.depth == depth:
            return (link,)
        if below := way_to(link.lower, depth):
            return (link, *below)
    return ()


def lift(node: Node, rows: Ints) -> Lifted:
    """The spans of some of the node's pieces, on this machine and below."""
    window = window_of(node.trace, node.pieces.rows(rows), node.commits, node.floor)
    found = stitch(window)
    own = replace(found.spans, of=np.arange(len(found.spans)))
    lifting = _Lifting(found.ties, found.audit)
    lifting.extend(own, node.depth)
    lifting.views.append(View(node, rows, window, found.spans, 0))
    asking = np.flatnonzero(np.isin(own.rank, ASKING) & (found.spans.of >= 0))
    for link in node.links:
        ask = at(link.ask_of(found.asked), found.spans.of[asking])
        mine = np.flatnonzero(ask >= 0)
        lifting.through(link, own.rows(asking[mine]), ask[mine])
        lifting.extend(link.hop.context(link, window), link.lower.depth)
    return lifting.lifted()


class _Lifting:
    """Collects what some pieces of a machine did there and below."""

    def __init__(self, ties: Counter[str], audit: Audit) -> None:
        self.views: list[View] = []
        self._audits = [audit]
        self._spans, self._ties = SpanList(), Counter(ties)

    def lifted(self) -> Lifted:
        return Lifted(self._spans.collect(), tuple(self.views), self._ties, tuple(self._audits))

    def extend(self, spans: Spans, depth: int) -> None:
        self._spans.extend(replace(spans, rank=spans.rank.astype(np.int32) + level(depth)))

    def through(self, link: Link, asking: Spans, ask: Ints) -> None:
        """Adds what became of the asks below; what nothing served keeps its time by that name.

        ``asking``: spans of this machine, by number; ``ask``: the row of the link's asks of each.
        """
        row, serve = link.served(ask)
        waiting = asking
        first, last = np.full(len(ask), np.iinfo(np.int64).max), np.full(len(ask), -1)
        np.minimum.at(first, row, link.begin_ns[serve])
        np.maximum.at(last, row, link.end_ns[serve])
        held = Held(
            asking.owner, ask, asking.begin_ns, asking.end_ns, np.where(last >= 0, first, -1), last
        )
        lost = (last < 0) & ~link.asks.shared[ask]
        self._lose(asking.where(lost), link.lower.depth)
        asking, held = asking.where(~lost), held.where(~lost)
        ways = link.hop.crossing(link, held)
        ways = replace(ways, owner=asking.owner[ways.owner], of=asking.of[ways.owner])
        self.extend(ways, link.lower.depth)
        if len(serve):
            edges = Edges(serve, waiting.owner[row], waiting.begin_ns[row], waiting.end_ns[row])
            self._served(link, edges)

    def _lose(self, asking: Spans, depth: int) -> None:
        """What nothing was found of takes the time that its asker waited for it."""
        rank = np.full(len(asking), RANK["unfollowed"], np.int16)
        self.extend(replace(asking, rank=rank), depth)

    def _served(self, link: Link, edges: Edges) -> None:
        """Adds the spans of some serves (``edges.activity``), in this machine's clock."""
        pieces, activity = np.unique(link.serves.piece[edges.activity], return_inverse=True)
        below = lift(link.lower, pieces)
        # What a thread did before (it slept, with nothing to do) is not this piece's.
        whose, served = pieces[below.spans.owner], link.lower.pieces
        begin_ns = np.maximum(below.spans.begin_ns, served.begin_ns[whose])
        end_ns = np.minimum(below.spans.end_ns, served.end_ns[whose])
        count = sum(len(view.spans) for view in self.views)
        self.views += [replace(view, first=view.first + count) for view in below.views]
        lowered = replace(
            below.spans,
            begin_ns=link.clock.to_upper(begin_ns),
            end_ns=link.clock.to_upper(np.maximum(end_ns, begin_ns)),
            of=np.where(below.spans.of >= 0, below.spans.of + count, -1),
        )
        self._spans.extend(follow(lowered, replace(edges, activity=activity)))
        self._ties += below.ties
        self._audits += below.audits
