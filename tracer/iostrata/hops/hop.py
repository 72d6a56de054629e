# SPDX-License-Identifier: Apache-2.0
"""Hops: two machines' traces in, what the upper asked and the lower served out.

A *hop* is a kind of crossing from one machine to the next: a guest's block
request that a virtual machine monitor carries out, an NFS client's call that a
server serves. It declares its wire key in one place, its ``asks`` and ``serves``;
everything else about machines is told to no hop.

To add one: a package like ``virtio`` with a class like its, and a line in ``HOPS`` (registry.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.clock import Alignment
from iostrata.columns import AsOf, Ints, Union, at, changes, order_of, ranges
from iostrata.hops.aside import by_the_unknown, with_others_beside
from iostrata.hops.route import Streams, Ways
from iostrata.model import NotObserved
from iostrata.stitch import (
    NO_COMMITS,
    NO_PIECES,
    Asked,
    Behind,
    Commits,
    Pieces,
    Reads,
    Spans,
    Window,
    processes_of,
)
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_VMM


@dataclass(frozen=True, eq=False)
class Asks:
    """What the upper machine asked, one row each, times in ns of its own clock.

    ``identity``: with ``begin_ns``, what ``stitch.Asked`` names it by. ``key``: the
    wire key. ``group``: what it went through (a disk, a connection). ``shared``: it
    has no key, and is served by whatever serves its group meanwhile (a flush).
    ``told_ns``: when the lower machine began to be told of it, ``heard_ns``: when it
    was heard that something is done; -1: not seen. ``offset_bytes``, ``size_bytes``: the
    range of the group that it is for, parts of which may be served apart, or together with
    another's; size 0: it is served as a whole or not at all.
    """

    identity: Ints
    begin_ns: Ints
    end_ns: Ints
    key: Ints
    group: Ints
    shared: NDArray[np.bool_]
    told_ns: Ints
    heard_ns: Ints
    offset_bytes: Ints
    size_bytes: Ints

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> Asks:
        return Asks(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Serves:
    """What the lower machine served, one row each, times in ns of its own clock.

    ``piece``: row of the pieces that its own events are tied to. ``agent``: the
    process that served (0: the kernel). ``flush``: it made durable and wrote nothing.
    ``offset_bytes``, ``size_bytes``: of what was written.
    """

    begin_ns: Ints
    end_ns: Ints
    key: Ints
    group: Ints
    shared: NDArray[np.bool_]
    piece: Ints
    agent: Ints
    flush: NDArray[np.bool_]
    offset_bytes: Ints
    size_bytes: Ints

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> Serves:
        return Serves(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Pairs:
    """Who served which ask, in order of ``ask``: rows of both tables.

    ``since_ns``: from when on it was waited for, in the upper's clock, if that is later than it
    began. ``crossing``: of each ask, whether its group reaches the lower machine at all.
    ``ambiguous``: of each ask, whether it was left untied because more than one serve
    may be its own.
    """

    ask: Ints
    serve: Ints
    since_ns: Ints
    crossing: NDArray[np.bool_]
    ambiguous: NDArray[np.bool_]

    def where(self, kept: NDArray[np.bool_]) -> Pairs:
        """Some of the pairs."""
        ask, serve, since_ns = (column[kept] for column in (self.ask, self.serve, self.since_ns))
        return Pairs(ask, serve, since_ns, self.crossing, self.ambiguous)

    def without(self, asks: NDArray[np.bool_]) -> Pairs:
        """Some asks left untied, because what is tied to them may be another's."""
        kept = ~asks[self.ask]
        ambiguous = self.ambiguous.copy()
        ambiguous[self.ask[~kept]] = True
        return Pairs(
            self.ask[kept], self.serve[kept], self.since_ns[kept], self.crossing, ambiguous
        )


@dataclass(frozen=True)
class Node:
    """What a machine did of one kind: its own writes, or what it served by one hop.

    ``place``: a number for it among all of a graph. ``reads``: what the pieces read, None: they
    are no reads.
    """

    trace: Trace
    pieces: Pieces
    commits: Commits
    place: int
    floor: str = "syscall"
    reads: Reads | None = None


@dataclass(frozen=True, eq=False)
class Link:
    """The way from one machine to another, or back to itself, by one hop.

    ``begin_ns``, ``end_ns``: of the serves, in the upper's clock. ``agents``: the
    processes that served any of the asks. ``bypassed``: groups of asks of which the
    lower machine saw nothing, although others came to it; ``unseen``: of which it told nothing,
    although it carried them out. ``untold``: of each ask without a key, whether it is as little
    followed as what it was for. ``right``: when, by the upper's clock, the two clocks' relation is,
    None: always. ``ways``: None: nothing tells which parts the way has.
    """

    hop: Hop
    upper: Trace
    lower: Node
    clock: Alignment
    asks: Asks
    serves: Serves
    begin_ns: Ints
    end_ns: Ints
    pairs: Pairs
    agents: Ints
    bypassed: Ints
    unseen: Ints
    untold: NDArray[np.bool_]
    right: Union | None = None
    ways: Ways | None = None

    def ask_of(self, asked: Asked) -> Ints:
        """The row of the asks that each of a window's asked is, -1: it is not of this hop."""
        found = AsOf(self.asks.identity, self.asks.begin_ns).at_or_before(asked.key, asked.begin_ns)
        return np.where(at(self.asks.begin_ns, found) == asked.begin_ns, found, -1)

    @cached_property
    def monitors(self) -> Ints:
        """The process that is the upper machine, a guest: it served, or the clocks tell, or there
        is no other; empty: which it is, is not known."""
        known = processes_of(self.lower.trace, THREAD_VMM)
        if self.hop.way != "hypervisor":
            return known[:0]
        for some in (self.agents, np.array([0 if self.clock.rivals else self.clock.pid])):
            if len(found := np.intersect1d(known, some)):
                return found
        return known if len(known) == 1 else known[:0]

    @cached_property
    def aside(self) -> NDArray[np.bool_]:
        """Of which of the serves it is not told what a machine's own daemon did for them: it
        was by a thread that had several at once, or one that nothing was known of, or its other
        threads did what may be for them."""
        if not self.hop.within:
            return np.zeros(len(self.serves), np.bool_)
        pieces = self.lower.pieces
        untold = (pieces.tid < 0) | self.unknown | with_others_beside(self.lower.trace, pieces)
        return untold[self.serves.piece]

    @cached_property
    def unknown(self) -> NDArray[np.bool_]:
        """Which of the lower machine's pieces are of threads that nothing was known of."""
        return by_the_unknown(self.lower.trace, self.lower.pieces)

    @cached_property
    def several(self) -> bool:
        """Whether any request was more than one ask."""
        return self.hop.parted and bool((self._count > 1).any())

    def parts(self, ask: Ints) -> tuple[Ints, Ints]:
        """All (row of ``ask``, row of the asks) of the same requests; -1 stays one."""
        count = np.where(ask >= 0, self._count[ask], 1)
        row = np.repeat(np.arange(len(ask)), count)
        place = np.repeat(self._first[ask], count) + ranges(count)
        return row, np.where(ask[row] >= 0, self._order[np.minimum(place, len(self.asks) - 1)], -1)

    @cached_property
    def _order(self) -> Ints:
        """The asks by the request that they are of."""
        return order_of(self.asks.identity, self.asks.begin_ns, self.asks.told_ns)

    @cached_property
    def _first(self) -> Ints:
        """Of each ask, where those of its request begin in that order."""
        return self._runs[0]

    @cached_property
    def _count(self) -> Ints:
        """Of each ask, how many its request was."""
        return self._runs[1]

    @cached_property
    def _runs(self) -> tuple[Ints, Ints]:
        order = self._order
        identity, begin = self.asks.identity[order], self.asks.begin_ns[order]
        number = np.cumsum(changes(identity) | changes(begin)) - 1
        count = np.bincount(number)
        first, total = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        first[order] = (np.cumsum(count) - count)[number]
        total[order] = count[number]
        return first, total

    def crosses(self, ask: Ints) -> NDArray[np.bool_]:
        """Whether each of some rows of the asks (-1: none) reaches the lower machine."""
        return (ask >= 0) & self.pairs.crossing[ask]

    def is_right(self, time_ns: Ints) -> NDArray[np.bool_]:
        """At which of some times of the upper machine's clock the relation of the two is."""
        if self.right is None:
            return np.ones(len(time_ns), np.bool_)
        found: NDArray[np.bool_] = self.right.within(time_ns, time_ns + 1) > 0
        return found

    def meanwhile(self, begin_ns: int, end_ns: int) -> Window:
        """The lower machine's events of a time of its own."""
        return Window(self.lower.trace, NO_PIECES, NO_COMMITS, max(begin_ns, 0), end_ns)

    def served(self, ask: Ints) -> tuple[Ints, Ints]:
        """All (row of ``ask``, row of the serves) of some asks."""
        row, pair = self.paired(ask)
        return row, self.pairs.serve[pair]

    def paired(self, ask: Ints) -> tuple[Ints, Ints]:
        """All (row of ``ask``, row of the pairs) of some asks."""
        first = np.searchsorted(self.pairs.ask, ask, side="left")
        count = np.searchsorted(self.pairs.ask, ask, side="right") - first
        row = np.repeat(np.arange(len(ask)), count)
        return row, np.repeat(first, count) + ranges(count)


@dataclass(frozen=True, eq=False)
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

    def where(self, keep: NDArray[np.bool_]) -> Held:
        return Held(**{name: column[keep] for name, column in vars(self).items()})


Name = Callable[[Ints], Ints]
"""Of groups, by what both machines may know them."""


def nothing(group: Ints) -> Ints:
    return np.zeros_like(group)


@dataclass(frozen=True)
class Context:
    """What else on the lower machine kept the upper one's pieces, or some asks.

    ``spans``: in the upper's clock (``owner``: the row of the piece, or of ``Held``; ``of``: of
    ``lower``).
    ``lower``: the same once each, in the lower's clock; ``behind``: who had what they waited for;
    both are of ``window``.
    """

    spans: Spans
    lower: Spans
    behind: Behind | None
    window: Window


READ_MARK: Final = np.int64(1 << 62)
"""Tells keys and groups of what is read from those of what is written to the same place."""


class Hop(ABC):
    """A kind of crossing.

    ``reads``: what is asked of it to be read is followed, too; of a hop that ``follows_reads``.
    ``floor``: the rank of a piece of the lower machine where no layer is at work. ``loops``: a
    machine may lead to itself by it; ``within``: to itself only. ``exclusive``: what one group
    of the lower machine serves is one group of one machine's. ``parted``: one request of the
    upper machine may be several asks. ``skips``: a group of asks may be carried out past the
    lower machine, which sees nothing of it then. ``overlaps``: all that is served is among what
    another hop has served. ``own``: all that is served is the workload's. ``unkeyed``: keys
    tell who may serve whom, but no serve's is its own: an ask is served by whatever its group
    served last. ``moves``: what serves a group of asks may be another group of serves for a
    while. ``names``: what two machines may have in common of a group, which is a connection's
    number, the surest first; ``least``: what they have in common of it where they have none of
    these. ``asker``: the role of a machine that has nothing but this to ask; ``way``: the
    segment between the two; ``leaf``: the segment of what the upper one asks, and ``beyond``:
    that segment's name where no lower machine was recorded. ``mounts``: the file systems of which
    all that is waited for is asked for by it.
    """

    name: str
    floor = "syscall"
    loops = True
    within = False
    exclusive = False
    parted = False
    skips = False
    overlaps = False
    own = False
    names: tuple[Name, ...] = ()
    least: Name = staticmethod(nothing)
    unkeyed = False
    moves = False
    asker = ""
    way = "network"
    leaf = "beyond"
    beyond = "network and server"
    follows_reads = False
    mounts: frozenset[str] = frozenset()

    def __init__(self, reads: bool = False) -> None:
        self.reads = reads and self.follows_reads

    @abstractmethod
    def asks(self, upper: Trace) -> Asks: ...

    @abstractmethod
    def serves(self, lower: Trace) -> tuple[Serves, Pieces]: ...

    @abstractmethod
    def crossing(self, link: Link, held: Held) -> Spans:
        """The way there and back, in the upper's clock; ``owner``: row of ``held``."""

    def translated(self, asks: Asks, upper: Trace, lower: Trace) -> Asks:
        """The asks by the keys and places that the lower machine knows them by."""
        return asks

    def placed(self, serves: Serves, lower: Trace) -> Serves:
        """The serves by the keys and places that an upper machine knows them by, if by any."""
        return serves

    def written(self, lower: Trace) -> tuple[Serves, Pieces]:
        """Those of the serves that wrote or made durable, each with its place, as far as it is
        told."""
        return self.serves(lower)

    def plain(self, lower: Trace) -> int:
        """How many writes the workload made by it that nothing made durable with them."""
        return 0

    def to_no_disk(self, lower: Trace) -> int:
        """How many writes and syncs a machine's servers made of files of their own."""
        return 0

    def untied(self, lower: Trace) -> str:
        """Why what a machine served, or asked, is tied to nothing; empty: that is not known."""
        return ""

    def streams(self, link: Link) -> Streams | None:
        """Where in TCP's streams what was asked is; None: that is not told."""
        return None

    def read(self, link: Link) -> Reads | None:
        """What of its files each of the lower machine's pieces read, size 0: nothing.

        None: that is not told.
        """
        return None

    def unseen(self, link: Link) -> Ints:
        """Of groups that may have been carried out past the lower machine, those that it did carry
        out, and told nothing of."""
        return link.bypassed[:0]

    def completed(self, link: Link) -> Pairs:
        """The pairs of a link, with what else was done for asks whose own serve is known."""
        return link.pairs

    def renamed(self, link: Link, pieces: Ints, spans: Spans, own: int) -> Spans:
        """What is below some of the lower machine's pieces, where this hop tells more of these.

        ``spans``: ``owner``: the row of ``pieces``; their ranks are of all machines, ``own`` the
        first of the lower machine's own.
        """
        return spans

    def context(self, link: Link, window: Window) -> Context | None:
        """What else on the lower machine kept the upper one's pieces."""
        return None

    def waiting(self, link: Link, held: Held) -> Context | None:
        """What the lower machine's threads wait for on the way there and back."""
        return None

    def disks(self, upper: Trace) -> Iterator[str]:
        """What to say of disks and servers that this hop leads to, if they were not recorded."""
        return iter(())

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        """What two recorded machines do not tell of the way between them."""
        return iter(())

    def reads_not_followed(self, link: Link) -> Iterator[NotObserved]:
        """What to say of reads where this hop follows only what is written."""
        if not self.follows_reads:
            what = f"what {link.upper.machine} reads by it is not followed"
            yield NotObserved(self.name, what, "device.read")

    def reads_untold(self, upper: Trace) -> Iterator[NotObserved]:
        """What a machine reads by this hop, and does not tell of."""
        return iter(())

    def untold(self, upper: Trace) -> Iterator[NotObserved]:
        """What a machine does not tell of what it asks by this hop, wherever that leads."""
        return iter(())

    def not_recorded(self, upper: Trace, links: Sequence[Link]) -> Iterator[NotObserved]:
        """Whom a machine asked by this hop and nothing is known of, beside where ``links`` lead."""
        return iter(())

    def limits(self, link: Link) -> Iterator[NotObserved]:
        """What may hold requests back on that way, without a point that tells of it; it is
        said where the lower machine's row that has the time holds some."""
        return iter(())
