# SPDX-License-Identifier: Apache-2.0
"""Hops: what was found of each group at each machine in, whether it may as well be chance out.

Where no other group has its keys, one call that is found is enough. Where others have them
(copies of one machine, whose addresses were not recorded), clocks that nobody knows are moved
until something fits, and a few calls always do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import Ints, distinct, ranges
from iostrata.hops.hop import Asks, Serves

LEAST_FOUND: Final = 4
"""So many are no chance, if nothing else has half as many."""


@dataclass(frozen=True)
class Told:
    """What a machine asked, or served."""

    machine: str
    table: Asks | Serves


@dataclass(frozen=True, order=True)
class Vote:
    """The first is the surest. ``weight``: what it counts, negative; ``unsynced``: nothing has
    made the one durable, of which the other was asked to be; ``loose_ns``: how much longer
    asks were than what serves them; ``number``: of the candidate; ``upper``, ``lower``: groups of
    asks and of serves; ``count``: asks of the one that were found among the other."""

    weight: int
    unsynced: bool
    loose_ns: int
    number: int
    upper: int
    lower: int
    count: int


Place = tuple[str, int]
"""A machine and a group of what it asked, or served."""


def in_doubt(votes: Sequence[Vote], asked: Sequence[Told], served: Sequence[Told]) -> set[Vote]:
    """The votes that may be chance. ``asked``, ``served``: of each candidate."""
    several = distinct(np.concatenate([_of_several(asked), _of_several(served)]))
    if not len(several):
        return set()
    contested = [
        _alike(one.table, other.table, several) for one, other in zip(asked, served, strict=True)
    ]
    found: dict[tuple[str, int], list[Vote]] = defaultdict(list)
    for vote in votes:
        found[asked[vote.number].machine, vote.upper].append(vote)

    def doubted(vote: Vote) -> bool:
        others = found[asked[vote.number].machine, vote.upper]
        most = max((one.count for one in others if one is not vote), default=0)
        enough = vote.count >= max(LEAST_FOUND, 2 * most)
        return not enough and (vote.upper, vote.lower) in contested[vote.number]

    return {vote for vote in votes if doubted(vote)}


def in_contest(votes: Sequence[Vote], asked: Sequence[Told], served: Sequence[Told]) -> set[Vote]:
    """The votes of groups of asks that fit a group of serves no better than another machine's do.

    Only one of them can have been served by it, and which is told by those that fit nowhere
    else. The others may as well be a copy of the right one, whose own host was not recorded.
    A machine of which less than half as much was found there is no rival.
    """
    best: dict[Place, int] = defaultdict(int)
    most: dict[Place, int] = defaultdict(int)
    homes: dict[Place, set[Place]] = {}
    ways = [
        (vote.weight, (asked[vote.number].machine, vote.upper),
         (served[vote.number].machine, vote.lower))
        for vote in votes
    ]  # fmt: skip
    for weight, upper, lower in ways:
        best[upper] = min(best[upper], weight)
        most[lower] = min(most[lower], weight)
        homes[upper] = set()
    for weight, upper, lower in ways:
        if weight == best[upper] and 2 * weight <= most[lower]:
            homes[upper].add(lower)
    while clear := _only_claims(homes):
        taken = set.union(*(homes[upper] for upper in clear))
        homes = {upper: home - taken for upper, home in homes.items() if upper not in clear}
    unsettled = {
        upper
        for upper, home in homes.items()
        if any(other[0] != upper[0] and home & theirs for other, theirs in homes.items())
    }
    return {vote for vote, (_, upper, _) in zip(votes, ways, strict=True) if upper in unsettled}


def _only_claims(homes: dict[Place, set[Place]]) -> set[Place]:
    """Who fits one group of serves, which nobody else needs."""
    needed = Counter(next(iter(home)) for home in homes.values() if len(home) == 1)
    return {
        upper for upper, home in homes.items() if len(home) == 1 and needed[next(iter(home))] == 1
    }


def _of_several(told: Sequence[Told]) -> Ints:
    """The keys that more than one group has, on one machine or on several."""
    tables = {one.machine: one.table for one in told}
    keys = [_keys(table)[0] for table in tables.values()]
    key, count = np.unique(np.concatenate([np.zeros(0, np.int64), *keys]), return_counts=True)
    return key[count > 1]


def _alike(asks: Asks | Serves, serves: Asks | Serves, among: Ints) -> set[tuple[int, int]]:
    """Groups of asks and groups of serves with one of some keys in common, whenever that was."""
    (key, upper), (other, lower) = _keys(asks, among), _keys(serves, among)
    first = np.searchsorted(other, key, side="left")
    count = np.searchsorted(other, key, side="right") - first
    lower = lower[np.repeat(first, count) + ranges(count)]
    return set(zip(np.repeat(upper, count).tolist(), lower.tolist(), strict=True))


def _keys(table: Asks | Serves, among: Ints | None = None) -> tuple[Ints, Ints]:
    """Each key of each group once, in order of keys; all of them, or some."""
    rows = ~table.shared if among is None else ~table.shared & np.isin(table.key, among)
    pairs = np.unique(np.stack([table.key[rows], table.group[rows]], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]
