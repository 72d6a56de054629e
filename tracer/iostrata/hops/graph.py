# SPDX-License-Identifier: Apache-2.0
"""Hops: machines' traces in, the graph of who served whom out.

What a machine asks by a hop, what it serves by one, and how two machines' clocks and
keys relate is found once for each two of them, whoever is at the top. A group of what
was asked (a disk, a connection) leads to one group of one machine: where most was found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.clock import SAME, Alignment, Intervals, align
from iostrata.columns import AsOf, Ints, at, distinct, order_of
from iostrata.hops.halted import astray, right_of
from iostrata.hops.hop import READ_MARK, Asks, Hop, Link, Node, Pairs, Serves
from iostrata.hops.match import Matched, Ties, Times, fitting, match
from iostrata.hops.moves import with_moves
from iostrata.hops.names import Way, told_apart
from iostrata.hops.registry import HOPS
from iostrata.hops.rivals import Told, Vote, in_contest, in_doubt
from iostrata.hops.ways import ways_of
from iostrata.layers import STACK
from iostrata.stitch import Pieces, Reads, commits_of
from iostrata.trace import Trace

LEAST_SHARE: Final = 0.1
"""Of a group's asks, those that must be found for it to lead there: else it is chance."""
ALIKE: Final = 0.9
"""Of the most that was found of a group, what may as well be all of it."""


@dataclass(frozen=True)
class Graph:
    """``places``: of nodes: each machine's own writes, then what was served by each link.

    ``untied``: of machines that none leads to, why what another one asked is not found there, if
    it could have been.
    """

    machines: tuple[Trace, ...]
    links: tuple[Link, ...]
    hops: tuple[Hop, ...] = HOPS
    untied: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> int:
        return len(self.machines) + len(self.links)

    @cached_property
    def _from(self) -> dict[str, tuple[Link, ...]]:
        names = [trace.machine for trace in self.machines]
        return {
            name: tuple(link for link in self.links if link.upper.machine == name) for name in names
        }

    def links_of(self, upper: Trace) -> tuple[Link, ...]:
        return self._from[upper.machine]

    def node(self, trace: Trace, pieces: Pieces, floor: str, reads: Reads | None = None) -> Node:
        """A top's own writes, or reads."""
        return Node(trace, pieces, commits_of(trace), self.machines.index(trace), floor, reads)

    def level(self, depth: int, place: int, above: bool = False) -> int:
        """What is added to the ranks of what was found so deep: the deeper holds the time.

        ``above``: less than all that is so deep, but deeper than what is less.
        """
        return ((2 * depth - above) * self.places + place) * len(STACK)

    def machine_at(self, place: int) -> str:
        """Whose node has that place."""
        few = len(self.machines)
        trace = self.machines[place] if place < few else self.links[place - few].lower.trace
        return trace.machine

    def link_of(self, rank: int) -> Link:
        """The link that a rank below a top is of."""
        return self.links[rank // len(STACK) % self.places - len(self.machines)]

    def below(self, trace: Trace) -> list[Trace]:
        """A machine and all that its links lead to, each behind the first that leads to it."""
        # Without a function that calls itself: that would keep the traces, and their files, open.
        found: dict[str, Trace] = {}
        left = [trace]
        while left:
            one = left.pop()
            if one.machine not in found:
                found[one.machine] = one
                left += [link.lower.trace for link in reversed(self.links_of(one))]
        return list(found.values())

    def way(self, one: Trace, other: Trace) -> list[tuple[Link, bool]] | None:
        """The links from machine to machine, and whether each leads down; None: there is none."""
        ways: dict[str, list[tuple[Link, bool]]] = {one.machine: []}
        left = [one.machine]
        for name in left:
            for link in self.links:
                ends = (link.upper.machine, link.lower.trace.machine)
                for near, far, down in ((*ends, True), (*ends[::-1], False)):
                    if near == name and far not in ways:
                        ways[far] = [*ways[name], (link, down)]
                        left.append(far)
        return ways.get(other.machine)


@dataclass(frozen=True)
class _Candidate:
    """What one machine may have served another; ``fits``: whatever may belong together."""

    hop: Hop
    upper: Trace
    lower: Trace
    clock: Alignment
    asks: Asks
    serves: Serves
    pieces: Pieces
    times: Times
    fits: Matched

    @cached_property
    def votes(self) -> list[tuple[int, int, int, int, bool]]:
        """Group of asks, group of serves, how many of the asks were found there, how much longer
        these were, and whether only the one was flushed, and the other never synced."""
        ask, serve = self.fits
        rows = np.stack([self.asks.group[ask], self.serves.group[serve], ask], axis=1)
        rows, first = np.unique(rows, axis=0, return_index=True)
        pairs, row, count = np.unique(rows[:, :2], axis=0, return_inverse=True, return_counts=True)
        loose_ns = np.zeros(len(pairs), np.int64)
        np.add.at(loose_ns, row, self._loose_ns(ask[first], serve[first]))
        asked = self._asked()
        flushed = {*distinct(self.asks.group[self.asks.shared]).tolist()}
        synced = {*distinct(self.serves.group[self.serves.shared]).tolist()}
        return [
            (upper, lower, votes, longer_ns, upper in flushed and lower not in synced)
            for (upper, lower), votes, longer_ns in zip(
                pairs.tolist(), count.tolist(), (loose_ns // count).tolist(), strict=True
            )
            if votes >= LEAST_SHARE * asked[upper]
        ]

    def _loose_ns(self, ask: Ints, serve: Ints) -> Ints:
        asked = self.asks.end_ns[ask] - self.asks.begin_ns[ask]
        return asked - (self.times.end_ns[serve] - self.times.begin_ns[serve])

    def _asked(self) -> dict[int, int]:
        """How many of each group might have been found: while the lower machine served anything."""
        asks, times = self.asks, self.times
        during = ~asks.shared & (asks.begin_ns >= times.begin_ns.min())
        during &= asks.end_ns <= times.end_ns.max()
        groups, count = np.unique(asks.group[during], return_counts=True)
        found = dict.fromkeys(distinct(asks.group).tolist(), 0)
        return found | dict(zip(groups.tolist(), count.tolist(), strict=True))

    def moved(self, ties: Ties, tied: Collection[int]) -> _Candidate:
        """With what was moved, while it was, by the name that it has else."""
        found = with_moves(self.asks, self.serves, self.times, self.fits, ties, tied)
        return replace(self, serves=found)

    def shift(self, line: Alignment) -> Times:
        return Times(line.to_upper(self.serves.begin_ns), line.to_upper(self.serves.end_ns))


def graph_of(machines: Sequence[Trace], reads: bool = False) -> Graph:
    """Every link that there is between some machines, or from one to itself.

    ``reads``: what was asked to be read is followed, too.
    """
    hops = tuple(type(hop)(reads=True) for hop in HOPS) if reads else HOPS
    candidates = {hop: _candidates(hop, machines) for hop in hops}
    found = [link for hop in hops for link in _links(hop, candidates[hop])]
    found.sort(key=lambda link: machines.index(link.upper))
    links = [
        replace(
            link,
            lower=replace(link.lower, place=len(machines) + number),
            ways=ways_of(link, machines),
        )
        for number, link in enumerate(found)
    ]
    untied = _untied([one for each in candidates.values() for one in each], links)
    return Graph(tuple(machines), tuple(links), hops, untied)


def _untied(candidates: Sequence[_Candidate], links: Sequence[Link]) -> dict[str, str]:
    """Of several that might have asked it, the one whose requests it comes closest to."""
    reached = {link.lower.trace.machine for link in links}
    found: dict[str, str] = {}
    for one in sorted(candidates, key=lambda one: -one.clock.pairs):
        if one.clock.contradiction and one.lower.machine not in reached:
            why = f"what {one.upper.machine} asked is not found there, as {one.clock.contradiction}"
            found.setdefault(one.lower.machine, why)
    return found


def _candidates(hop: Hop, machines: Sequence[Trace]) -> list[_Candidate]:
    ways = list(_ways(hop, machines))
    return [one for way in told_apart(hop, ways) if (one := _candidate(hop, way))]


def _links(hop: Hop, candidates: Sequence[_Candidate]) -> Iterator[Link]:
    found = list(_tied(hop, candidates))
    tied = Counter((one.lower.machine, group) for one, ties, _ in found for group in ties.lower)
    for candidate, ties, doubted in found:
        claims = [tied[candidate.lower.machine, group] for group in ties.lower]
        contested = ties.upper[np.array(claims) > 1]
        known = {group for machine, group in tied if machine == candidate.lower.machine}
        moved = candidate.moved(ties, known) if hop.moves else candidate
        yield _link(moved, ties, doubted, contested)


def _ways(hop: Hop, machines: Sequence[Trace]) -> Iterator[Way]:
    served = [(lower, *hop.serves(lower)) for lower in machines]
    served = [
        (lower, hop.placed(serves, lower), pieces)
        for lower, serves, pieces in served
        if len(serves)
    ]
    for upper in machines:
        lowers = [one for one in served if (hop.loops if one[0] is upper else not hop.within)]
        asks = hop.asks(upper) if lowers else None
        if asks is not None and len(asks):
            for lower, serves, pieces in lowers:
                yield Way(upper, lower, hop.translated(asks, upper, lower), serves, pieces)


def _candidate(hop: Hop, way: Way) -> _Candidate | None:
    asks, serves = way.asks, way.serves
    same = way.upper is way.lower
    told = _alone(_keyed(asks)) if hop.unkeyed else _keyed(asks)
    clock = SAME if same else align(way.upper, way.lower, told, _keyed(serves))
    if clock is None:
        return None
    times = Times(clock.to_upper(serves.begin_ns), clock.to_upper(serves.end_ns))
    fits = fitting(asks, serves, times)
    return _Candidate(hop, way.upper, way.lower, clock, asks, serves, way.pieces, times, fits)


def _tied(hop: Hop, candidates: Sequence[_Candidate]) -> Iterator[tuple[_Candidate, Ties, Ints]]:
    """Each group of asks goes where most of it was found; clocks that nothing contradicts count
    double. The last: groups that may as well have gone elsewhere."""
    votes = _alike([
        Vote(_weight(one, count), unsynced, loose_ns, number, upper, lower, count)
        for number, one in enumerate(candidates)
        for upper, lower, count, loose_ns, unsynced in one.votes
    ], candidates)  # fmt: skip
    doubts = _doubts(hop, votes, candidates)
    taken: set[tuple[object, ...]] = set()
    ties: dict[int, list[tuple[int, int, bool]]] = {}
    for vote in sorted(votes, key=lambda vote: (vote in doubts, vote)):
        one, upper, lower = candidates[vote.number], vote.upper, vote.lower
        asker = () if hop.exclusive else (one.upper.machine,)
        claims: set[tuple[object, ...]] = {(one.upper.machine, upper)}
        if vote not in doubts:
            claims.add((*asker, one.lower.machine, "serves", lower))
        if not claims & taken:
            taken |= claims
            ties.setdefault(vote.number, []).append((upper, lower, vote in doubts))
    for number, pairs in sorted(ties.items()):
        upper, lower, doubted = np.array(sorted(pairs), np.int64).T
        yield candidates[number], Ties(upper, lower), upper[doubted > 0]


def _weight(one: _Candidate, count: int) -> int:
    return -count * (2 if one.clock.contradiction is None else 1)


def _alike(votes: Sequence[Vote], candidates: Sequence[_Candidate]) -> list[Vote]:
    """Of each group of asks, votes of nearly the most weight have it: then that which leaves the
    least of the asks' time to the way is first. What a quick disk of a mirror served lies within
    what its slow one was asked, too. A file that a hypervisor mirrors a disk to is not synced."""
    most: dict[tuple[str, int], int] = defaultdict(int)
    asker = [(candidates[vote.number].upper.machine, vote.upper) for vote in votes]
    for vote, group in zip(votes, asker, strict=True):
        most[group] = min(most[group], vote.weight)
    return [
        replace(vote, weight=most[group]) if vote.weight <= ALIKE * most[group] else vote
        for vote, group in zip(votes, asker, strict=True)
    ]


def _doubts(hop: Hop, votes: Sequence[Vote], candidates: Sequence[_Candidate]) -> set[Vote]:
    asked = [Told(one.upper.machine, one.asks) for one in candidates]
    served = [Told(one.lower.machine, one.serves) for one in candidates]
    by_name = in_doubt(votes, asked, served) if hop.names else set()
    return by_name | (in_contest(votes, asked, served) if hop.exclusive else set())


def _link(one: _Candidate, ties: Ties, doubted: Ints, contested: Ints) -> Link:
    asks, serves, clock = one.asks, one.serves, one.clock
    if one.hop.unkeyed:
        asks = replace(asks, shared=np.ones(len(asks), np.bool_))
        serves = replace(serves, shared=np.ones(len(serves), np.bool_))
    rivals = [one.shift(replace(clock, line=line)) for line in clock.rivals]
    pairs = match(asks, serves, one.times, ties, clock.slack, rivals, contested)
    pairs = pairs.without(np.isin(asks.group, doubted))
    if right := right_of(one.upper, asks, pairs):
        pairs = pairs.where(~astray(right, asks.begin_ns, asks.end_ns)[pairs.ask])
    lost = np.setdiff1d(asks.group[~asks.shared], ties.upper)
    link = Link(
        hop=one.hop,
        upper=one.upper,
        lower=Node(one.lower, one.pieces, commits_of(one.lower), 0, one.hop.floor),
        clock=clock,
        asks=asks,
        serves=serves,
        begin_ns=one.times.begin_ns,
        end_ns=one.times.end_ns,
        pairs=pairs,
        agents=distinct(serves.agent[pairs.serve]),
        bypassed=lost if one.hop.skips else lost[:0],
        untold=_untold(asks, pairs),
        right=right,
        unseen=lost[:0],
    )
    link = replace(link, pairs=one.hop.completed(link))
    unseen = one.hop.unseen(link)
    link = replace(link, unseen=unseen, bypassed=np.setdiff1d(link.bypassed, unseen))
    if not one.hop.reads:
        return link
    return replace(link, lower=replace(link.lower, reads=one.hop.read(link)))


def _untold(asks: Asks, pairs: Pairs) -> NDArray[np.bool_]:
    """Which flushes found nothing that was synced, as the write before them was found nowhere: both
    were another file's, or are at no time of the lower machine's."""
    writes = ~asks.shared & pairs.crossing & ((asks.group & READ_MARK) == 0)
    keyed, shared = np.flatnonzero(writes), np.flatnonzero(asks.shared & pairs.crossing)
    nowhere = (~np.isin(keyed, pairs.ask)).astype(np.int64)
    last = AsOf(asks.group[keyed], asks.end_ns[keyed]).at_or_before(
        asks.group[shared], asks.begin_ns[shared]
    )
    untold = np.zeros(len(asks), np.bool_)
    untold[shared] = (at(nowhere, last) > 0) & ~np.isin(shared, pairs.ask)
    return untold


def _keyed(found: Asks | Serves) -> Intervals:
    return Intervals(found.key, found.begin_ns, found.end_ns).take(~found.shared)


def _alone(asks: Intervals) -> Intervals:
    """Those beside which nothing else was asked of their key: of several at once one serve may have
    ended all, or any, so that they tell nothing of the clocks."""
    alone = np.zeros(len(asks), np.bool_)
    for key in distinct(asks.key).tolist():
        rows = np.flatnonzero(asks.key == key)
        rows = rows[order_of(asks.begin_ns[rows])]
        begin, until = asks.begin_ns[rows], np.maximum.accumulate(asks.end_ns[rows])
        apart = np.concatenate(([True], begin[1:] >= until[:-1], [True]))
        alone[rows] = apart[:-1] & apart[1:]
    return asks.take(alone)
