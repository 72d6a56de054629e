# SPDX-License-Identifier: Apache-2.0
"""Hops: pieces of one machine in, their spans on it and on all machines below it out.

Each machine is stitched on its own, into spans of its own pieces. A link says
which of its asks were served by which pieces of the machine below; the spans of
those are lifted: into the upper clock, clipped to the ask, and given to the piece
that asked. What is lifted ranks below (deeper than) everything of the upper machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    Ints,
    Union,
    at,
    changes,
    coded,
    distinct,
    joined,
    one_of,
    order_of,
    outside,
    overlapping,
    pair_key,
)
from iostrata.hops.furthest import Furthest
from iostrata.hops.graph import Graph
from iostrata.hops.halted import kept
from iostrata.hops.hop import Context, Held, Link, Node
from iostrata.layers import LAYERS, RANK, STACK, Depth
from iostrata.stitch import (
    TIED_BY,
    Audit,
    Behind,
    Edges,
    SpanList,
    Spans,
    Stitched,
    Window,
    follow,
    stitch,
    window_of,
)

# Ranks of spans that wait for something below the machine.
NONE: Final = np.zeros(0, np.int64)
Times = tuple[Ints, Ints, Ints]
"""Of an owner each, from when to when."""
DEEPEST: Final = 64
"""No write's way leads through so many machines: what would is matched wrong."""
ASKING = np.array([rank.asks for rank in STACK])
UNTOLD = np.flatnonzero([rank.untold for rank in STACK])
STAGES = np.array(sorted({RANK[stage.rank] for layer in LAYERS for stage in layer.stages}))
BLOCKED: Final = RANK["blocked"]
CALLED: Final = RANK["initiator.call"]
CALLS = np.flatnonzero([rank.asks and rank.depth == Depth.AWAY for rank in STACK])


@dataclass(frozen=True, eq=False)
class View:
    """What one machine's own events say about some of its pieces, or about what kept others'.

    ``rows``: of the node's pieces, which are the window's. ``spans``: of the window's
    pieces, in this machine's clock; the n-th has the number ``first`` + n. ``way``: the
    links from the top to this machine. ``behind``: who had what the spans waited for, None: it is
    not told.
    """

    node: Node
    rows: Ints
    window: Window
    spans: Spans
    first: int
    way: tuple[Link, ...]
    behind: Behind | None


@dataclass(frozen=True, eq=False)
class Lifted:
    """``spans``: of the given pieces (``owner``: the row), ranks of all machines.

    ``Spans.of``: the number of the span that this one is a copy of, on its own
    machine; of a way between two machines, of the upper one's span that waits for it.
    ``hidden``: when something was awaited of a machine (the rank is its place in the graph)
    behind what was awaited longer. ``views``: where those are, by number. ``audits``: of each
    machine's part of it. ``missed``: the pieces (rows) that asked for anything, be it hidden, of
    which nothing was found on the machines to which such leads. ``served``: of each read, from
    where, as ``place_of`` tells it.
    """

    spans: Spans
    hidden: Spans
    missed: Ints
    views: tuple[View, ...]
    ties: Counter[str]
    audits: tuple[Audit, ...]
    served: Ints


def lift(
    graph: Graph,
    node: Node,
    rows: Ints,
    way: tuple[Link, ...] = (),
    told: NDArray[np.bool_] | None = None,
    tied_by: Ints | None = None,
) -> Lifted:
    """The spans of some of the node's pieces, on this machine and below.

    ``way``: the links that led from the top to it. ``told``: of which of the rows ``Lifted.ties``
    and what was idle in ``Lifted.audits`` are; None: of all. ``tied_by``: which of TIED_BY ties
    each to a write; None: all have a key.
    """
    reads = node.reads.rows(rows) if node.reads else None
    window = window_of(
        node.trace, node.pieces.rows(rows), node.commits, node.floor, reads, node.pieces
    )
    found = stitch(window)
    own = replace(found.spans, of=np.arange(len(found.spans)))
    lifting = _Lifting(graph, way, found, node.place, told, tied_by)
    lifting.views.append(View(node, rows, window, found.spans, 0, way, found.behind))
    links = graph.links_of(node.trace)
    calls = one_of(own.rank, CALLS)
    lifting.missing(own.owner[np.flatnonzero(one_of(own.rank, UNTOLD))])
    # What a server or a hypervisor writes for others may stay in its page cache.
    lifting.missing(NONE if way else _asked_nothing(links, window, own))
    if not links and not calls.any():
        lifting.extend(own, node.place, deeper=0)
        return lifting.lifted()
    # What is changed below is not what the machine's own spans have.
    until_ns = found.spans.end_ns.copy()
    own = replace(own, end_ns=until_ns)
    asking = np.flatnonzero(ASKING[own.rank] & (found.spans.of >= 0))
    asked = own.rows(asking)
    asks = [at(link.ask_of(found.asked), found.spans.of[asking]) for link in links]
    asking, asked, asks = _in_parts(links, asking, asked, asks)
    until = critical(replace(asked, begin_ns=_since(found, asking, asked)))
    until = np.maximum(until, asked.begin_ns)
    # A call that leads nowhere is less deep than a disk of its own machine, and may end later.
    beside = np.isin(asked.owner, own.owner[calls])
    _hold(until_ns, asking[beside], until[beside])
    crossing = [link.crosses(ask) for link, ask in zip(links, asks, strict=True)]
    followed = np.isin(asking, asking[np.any(crossing, axis=0)]) if links else asking < 0
    if len(way) < DEEPEST:
        _hold(until_ns, asking[followed], until[followed])
    nowhere = _led_nowhere(asks, crossing)
    lifting.missing(asked.owner[nowhere])
    unknown = _merged(asked.owner[nowhere], asked.begin_ns[nowhere], until[nowhere])
    if node.reads and not all(link.hop.follows_reads for link in links):
        lifting.missing(own.owner[_read_unseen(links, found)])
    alone = _by_one_alone(crossing, asked.owner, len(rows))
    for link, ask, crosses, by_it in zip(links, asks, crossing, alone, strict=True):
        if len(way) < DEEPEST:
            mine = np.flatnonzero(crosses)
            lifting.through(link, asked.rows(mine), ask[mine], until[mine])
            _leave(found.spans, asking[mine], until_ns)
        lifting.beside(link, window, by_it, unknown)
    lifting.extend(own, node.place, deeper=0)
    return lifting.lifted()


def _since(found: Stitched, asking: Ints, asked: Spans) -> Ints:
    """Since when each of what was asked is waited for: be it, at first, for its turn to be sent."""
    handed_ns = at(found.asked.handed_ns, found.spans.of[asking])
    return np.where(handed_ns < found.spans.begin_ns[asking], handed_ns, asked.begin_ns)


def _in_parts(
    links: Sequence[Link], asking: Ints, asked: Spans, asks: list[Ints]
) -> tuple[Ints, Spans, list[Ints]]:
    """The same, once for each ask where one request was several: from the first to the last.

    Each is awaited from when it was sent until it was answered; the first since the request began,
    the last until it was complete.
    """
    for number, link in enumerate(links):
        if not link.several:
            continue
        row, part = link.parts(asks[number])
        several = np.bincount(row, minlength=len(asking))[row] > 1
        told = np.where(several, link.asks.told_ns[part], asked.begin_ns[row])
        heard = np.where(several, link.asks.heard_ns[part], asked.end_ns[row])
        first, last = asked.end_ns.copy(), asked.begin_ns.copy()
        np.minimum.at(first, row, told)
        np.maximum.at(last, row, heard)
        begin = np.where(told <= first[row], asked.begin_ns[row], told)
        end = np.where(heard >= last[row], asked.end_ns[row], heard)
        of_hop = [other.hop is link.hop for other in links]
        asks = [part if same else ask[row] for same, ask in zip(of_hop, asks, strict=True)]
        return asking[row], replace(asked.rows(row), begin_ns=begin, end_ns=end), asks
    return asking, asked, asks


def _by_one_alone(
    crossing: Sequence[NDArray[np.bool_]], owner: Ints, count: int
) -> NDArray[np.bool_]:
    """Of each link, which of so many pieces asked for anything by it, and by no other.

    ``owner``: of each ask, its piece.
    """
    by_each = np.zeros((len(crossing), count), np.bool_)
    for row, crosses in zip(by_each, crossing, strict=True):
        row[owner[crosses]] = True
    found: NDArray[np.bool_] = by_each & (by_each.sum(axis=0) == 1)
    return found


def _hold(until_ns: Ints, asking: Ints, until: Ints) -> None:
    """What was asked for holds the time until the last of its parts does."""
    if len(asking):
        until_ns[asking] = np.iinfo(np.int64).min
        np.maximum.at(until_ns, asking, until)


def _led_nowhere(asks: Sequence[Ints], crossing: Sequence[NDArray[np.bool_]]) -> Ints:
    """Which asks are of a hop by which this machine's others reach a machine, and these none."""
    asked = np.array(asks) >= 0
    return np.flatnonzero(asked.any(axis=0) & ~np.array(crossing).any(axis=0)) if asks else NONE


def _asked_nothing(links: Sequence[Link], window: Window, own: Spans) -> Ints:
    """The pieces on a file system that another machine has which waited, and of which no call to
    that one is known (``own``: their spans): they slept, or were asynchronous and nothing was at
    work for them most of their time. What has nothing to write waits for nothing; what reads may
    have it from the page cache.
    """
    kinds = frozenset[str]().union(*(link.hop.mounts for link in links))
    mounts = window.trace.facts.mounts if kinds and window.reads is None else ()
    devices = [mount.device_key for mount in mounts if mount.file_system in kinds]
    pieces = window.pieces
    untied = one_of(pieces.device_key, devices)
    untied[own.owner[one_of(own.rank, CALLS)]] = False
    if not untied.any():
        return NONE
    slept = np.zeros(len(pieces), np.bool_)
    slept[own.owner[own.rank == BLOCKED]] = True
    mine = own.where(untied[own.owner])
    owner, begin, end = _merged(mine.owner, mine.begin_ns, mine.end_ns)
    at_work = np.bincount(owner, end - begin, len(pieces))
    idle = (pieces.request_key != 0) & (2 * at_work < pieces.end_ns - pieces.begin_ns)
    return np.flatnonzero(untied & (slept | idle))


def _read_unseen(links: Sequence[Link], found: Stitched) -> Ints:
    """The spans of what a network disk was asked for by no ask: it was read, by a hop that follows
    only what is written."""
    calls = np.flatnonzero(found.spans.rank == CALLED)
    asks = [at(link.ask_of(found.asked), found.spans.of[calls]) for link in links]
    return calls[(np.array(asks) < 0).all(axis=0)]


def _merged(owner: Ints, begin_ns: Ints, end_ns: Ints) -> Times:
    """Of each owner, the times that any of some intervals holds, which do not overlap."""
    if not len(owner):
        return owner, begin_ns, end_ns
    # One union for all: each owner's times are moved behind the last one's.
    owners, number = coded(owner)
    first = int(begin_ns.min())
    span = int(end_ns.max()) - first + 1
    shift = number * span - first
    held = Union(begin_ns + shift, end_ns + shift)
    which = held.begins // span
    shift = which * span - first
    return owners[which], held.begins - shift, held.ends - shift


def _without(spans: Spans, owner: Ints, begin_ns: Ints, end_ns: Ints) -> Spans:
    """What of some spans is at none of their owners' times."""
    if not len(owner):
        return spans
    row, gap = overlapping(spans.owner, spans.begin_ns, spans.end_ns, owner, begin_ns, end_ns)
    since = np.maximum(spans.begin_ns[row], begin_ns[gap])
    until = np.minimum(spans.end_ns[row], end_ns[gap])
    number, begin, end = outside(spans.begin_ns, spans.end_ns, row, since, until)
    left = np.flatnonzero(begin < end)
    return replace(spans.rows(number[left]), begin_ns=begin[left], end_ns=end[left])


def critical(asks: Spans) -> Ints:
    """Until when each of some asks holds its owner's time: until one begins that ends later.

    Of all that is awaited at an instant, that which ends last is what is waited for.
    """
    order = order_of(asks.owner, -asks.end_ns, asks.begin_ns)
    owner, begin, end = asks.owner[order], asks.begin_ns[order], asks.end_ns[order]
    # One running minimum for all: each owner's times are moved below the last owner's.
    number = np.cumsum(changes(owner)) - 1
    span = int(end.max(initial=0) - begin.min(initial=0)) + 1
    least = np.minimum.accumulate(begin - number * span) + number * span
    before = np.append(end[:1], least[:-1])[: len(end)]
    until = np.empty(len(asks), np.int64)
    until[order] = np.clip(np.where(changes(owner), end, before), begin, end)
    return until


def _leave(spans: Spans, asking: Ints, until_ns: Ints) -> None:
    """The stages of what was asked for hold its time no longer than that itself does."""
    stages = np.flatnonzero(one_of(spans.rank, STAGES))
    if not len(stages):
        return
    asked, row = np.unique(pair_key(spans.owner[asking], spans.of[asking]), return_inverse=True)
    last = np.full(len(asked), np.iinfo(np.int64).min)
    np.maximum.at(last, row, until_ns[asking])
    key = pair_key(spans.owner[stages], spans.of[stages])
    mine = one_of(key, asked)
    stages, left = stages[mine], last[np.searchsorted(asked, key[mine])]
    until_ns[stages] = np.clip(left, spans.begin_ns[stages], until_ns[stages])


class _Lifting:
    """Collects what some pieces of a machine did there and below."""

    def __init__(
        self,
        graph: Graph,
        way: tuple[Link, ...],
        found: Stitched,
        place: int,
        told: NDArray[np.bool_] | None,
        tied_by: Ints | None,
    ) -> None:
        self.views: list[View] = []
        self._graph, self._way, self._found = graph, way, found
        self._told, self._tied_by = told, tied_by
        self._audits, self._furthest = [_audited(found, told)], Furthest(found.served, place)
        self._spans, self._hidden = SpanList(), SpanList()
        self._ties = _tied(found, told, tied_by)
        self._missed: list[Ints] = []

    def lifted(self) -> Lifted:
        spans, hidden = self._spans.collect(), self._hidden.collect()
        missed = distinct(np.concatenate([NONE, *self._missed]))
        return Lifted(
            spans, hidden, missed, tuple(self.views), self._ties, tuple(self._audits),
            self._furthest.served(),
        )  # fmt: skip

    def missing(self, pieces: Ints) -> None:
        """Pieces of which something was asked for, and nothing of it was found."""
        self._missed.append(pieces)
        self._furthest.lost(pieces)

    def extend(self, spans: Spans, place: int, deeper: int = 1, above: bool = False) -> None:
        """``deeper``: by how much they are deeper than what this machine did itself; ``above``:
        as ``Graph.level`` has it."""
        level = self._graph.level(len(self._way) + deeper, place, above)
        rank = spans.rank.astype(np.int32)
        rank += level
        self._spans.extend(replace(spans, rank=rank))

    def beside(self, link: Link, window: Window, alone: NDArray[np.bool_], unknown: Times) -> None:
        """Adds what kept this machine's pieces from running.

        ``alone``: of each piece, whether this link alone leads to what it asked: what is at work
        for it beyond another one does not wait for this. ``unknown``: when it waited for what
        nothing is known of, which may have been at work.
        """
        context = link.hop.context(link, window)
        if context is None:
            return
        spans = _without(kept(link.right, self._numbered(context, link)), *unknown)
        mine = alone[spans.owner]
        self.extend(spans.where(mine), link.lower.place)
        self.extend(spans.where(~mine), link.lower.place, above=True)

    def _numbered(self, context: Context, link: Link) -> Spans:
        """The spans of a context by number, which are looked up from then on."""
        spans, first = context.spans, np.full(len(context.spans), -1)
        if context.behind:
            first = spans.of + self._count()
            way = (*self._way, link)
            self.views.append(
                View(link.lower, NONE, context.window, context.lower, self._count(), way,
                     context.behind)
            )  # fmt: skip
        return replace(spans, of=np.where(spans.of >= 0, first, -1))

    def _count(self) -> int:
        """So many spans have a number."""
        return sum(len(view.spans) for view in self.views)

    def through(self, link: Link, asking: Spans, ask: Ints, until: Ints) -> None:
        """Adds what became of the asks below; what nothing served keeps its time by that name.

        ``asking``: spans of this machine, by number; ``ask``: the row of the link's asks of
        each; ``until``: when another that is awaited longer began to hold the time.
        """
        place = link.lower.place
        alone = critical(asking)
        self._hidden.add(asking.owner, np.full(len(ask), place, np.int32), until, alone)
        row, pair = link.paired(ask)
        serve, since = link.pairs.serve[pair], link.pairs.since_ns[pair]
        first, last = np.full(len(ask), NEVER), np.full(len(ask), -1)
        np.minimum.at(first, row, np.maximum(link.begin_ns[serve], since))
        np.maximum.at(last, row, link.end_ns[serve])
        held = Held(
            asking.owner, ask, asking.begin_ns, asking.end_ns, np.where(last >= 0, first, -1), last
        )
        if len(serve):
            begin = np.maximum(asking.begin_ns[row], since)
            edges = Edges(serve, asking.owner[row], begin, until[row])
            tied_by = self._found.asked.tied_by[self._found.spans.of[asking.of[row]]]
            if self._tied_by is not None:
                tied_by = np.maximum(tied_by, self._tied_by[edges.write])
            self._served(link, edges, tied_by)
        nowhere = ~link.asks.shared | link.pairs.ambiguous | link.untold
        lost = (last < 0) & nowhere[ask]
        self.missing(asking.owner[(last < 0) if link.hop.unkeyed else lost])
        # What nothing was found of takes the time that its asker waited for it.
        rank = np.full(np.count_nonzero(lost), RANK["unfollowed"], np.int16)
        waiting = replace(asking, end_ns=until)
        self.extend(replace(waiting.where(lost), rank=rank), place)
        waiting, held = waiting.where(~lost), held.where(~lost)
        ways = link.hop.crossing(link, held)
        ways = replace(ways, of=waiting.of[ways.owner])
        self.missing(waiting.owner[ways.owner[ways.rank == RANK["unfollowed"]]])
        context = link.hop.waiting(link, held)
        parts = [ways, self._numbered(context, link)] if context else [ways]
        ways = Spans(**joined(parts))
        whose = ways.owner
        end_ns = np.minimum(ways.end_ns, waiting.end_ns[whose])
        ways = replace(ways, owner=waiting.owner[whose], end_ns=end_ns)
        self.extend(ways.where(ways.begin_ns < end_ns), place)

    def _served(self, link: Link, edges: Edges, tied_by: Ints) -> None:
        """Adds the spans of some serves (``edges.activity``), in this machine's clock; which of
        TIED_BY ties each to a write."""
        pieces, activity = coded(link.serves.piece[edges.activity])
        told = None
        if self._told is not None:
            told = one_of(np.arange(len(pieces)), activity[self._told[edges.write]])
        weakest = np.zeros(len(pieces), np.int64)
        np.maximum.at(weakest, activity, tied_by)
        below = lift(self._graph, link.lower, pieces, (*self._way, link), told, weakest)
        level = self._graph.level(len(self._way) + 1, link.lower.place)
        spans = link.hop.renamed(link, pieces, below.spans, level)
        count = self._count()
        self.views += [replace(view, first=view.first + count) for view in below.views]
        serves, edges = edges.activity, replace(edges, activity=activity)
        for some, into in ((spans, self._spans), (below.hidden, self._hidden)):
            into.extend(follow(_lifted(link, pieces, some, count), edges))
        if len(below.served) and link.lower.reads:
            own = np.flatnonzero(link.lower.reads.size_bytes[pieces[activity]] > 0)
            self._furthest.below(edges.write[own], below.served[activity[own]])
        self.missing(edges.write[np.isin(activity, below.missed)])
        self.missing(edges.write[link.aside[serves]])
        self._ties += below.ties
        self._audits += below.audits


def _tied(found: Stitched, told: NDArray[np.bool_] | None, tied_by: Ints | None) -> Counter[str]:
    """How many requests were tied, those of the pieces that are told of: by no more than what ties
    the piece."""
    piece, by = found.tied_to, found.tied_by
    if tied_by is not None:
        by = np.maximum(by, at(tied_by, piece))
    if told is not None:
        by = by[(piece < 0) | told[piece]]
    counts = np.bincount(by, minlength=len(TIED_BY))
    return Counter(dict(zip(TIED_BY, counts.tolist(), strict=True)))


def _audited(found: Stitched, told: NDArray[np.bool_] | None) -> Audit:
    """What was idle of the pieces that are told of."""
    if told is None:
        return found.audit
    mine = np.flatnonzero(told[found.idle_of])
    return replace(found.audit, idle=found.audit.idle.rows(mine))


def _lifted(link: Link, pieces: Ints, spans: Spans, first: int) -> Spans:
    """Spans of some pieces of the lower machine in the upper one's clock; ``first``: number."""
    # What a thread did before (it slept, with nothing to do) is not this piece's.
    whose, served = pieces[spans.owner], link.lower.pieces
    begin_ns = np.maximum(spans.begin_ns, served.begin_ns[whose])
    end_ns = np.minimum(spans.end_ns, served.end_ns[whose])
    return replace(
        spans,
        begin_ns=link.clock.to_upper(begin_ns),
        end_ns=link.clock.to_upper(np.maximum(end_ns, begin_ns)),
        of=np.where(spans.of >= 0, spans.of + first, -1),
    )
