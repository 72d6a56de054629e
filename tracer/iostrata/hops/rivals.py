# SPDX-License-Identifier: Apache-2.0
"""Hops: what was found of each group at each machine in, whether it may as well be chance out.

Where no other group has its keys, one call that is found is enough. Where others have them
(copies of one machine, whose addresses were not recorded), clocks that nobody knows are moved
until something fits, and a few calls always do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import Ints, ranges
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
    """The first is the surest. ``weight``: what it counts, negative; ``loose_ns``: how much longer
    asks were than what serves them; ``number``: of the candidate; ``upper``, ``lower``: groups of
    asks and of serves; ``count``: asks of the one that were found among the other."""

    weight: int
    loose_ns: int
    number: int
    upper: int
    lower: int
    count: int


def in_doubt(votes: Sequence[Vote], asked: Sequence[Told], served: Sequence[Told]) -> set[Vote]:
    """The votes that may be chance. ``asked``, ``served``: of each candidate."""
    several = np.union1d(_of_several(asked), _of_several(served))
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
