# SPDX-License-Identifier: Apache-2.0
"""Hops: ways from machine to machine in, the same out, the group in the key where both know it.

Two machines know a connection by the same addresses and ports, unless a router between them
changes some: then by the ports alone, or by nothing. Where one name is on both sides of a way,
with a key in common, it goes this way: what else has the same keys (another client's calls, be
that client a copy of this one, or calls to another server) is none of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from iostrata.columns import Ints, at, distinct, pair_key
from iostrata.hops.hop import Asks, Hop, Name, Serves
from iostrata.stitch import Pieces
from iostrata.trace import Trace


@dataclass(frozen=True)
class Way:
    """What one machine asked and another one served, before anything says that they met."""

    upper: Trace
    lower: Trace
    asks: Asks
    serves: Serves
    pieces: Pieces


Named = dict[int, int]
"""Groups of one machine's asks, or of its serves, and the name of each."""


def told_apart(hop: Hop, ways: Sequence[Way]) -> list[Way]:
    """Keys of one hop's ways that no other group can have: by the surest name in common."""
    asked: dict[str, Named] = defaultdict(dict)
    served: dict[str, Named] = defaultdict(dict)
    for name in hop.names:
        met = [
            _in_common(name, way, asked[way.upper.machine], served[way.lower.machine])
            for way in ways
        ]
        for way, (asks, serves) in zip(ways, met, strict=True):
            asked[way.upper.machine].update(asks)
            served[way.lower.machine].update(serves)
    return [
        replace(
            way,
            asks=replace(way.asks, key=_named(hop, way.asks, asked[way.upper.machine])),
            serves=replace(way.serves, key=_named(hop, way.serves, served[way.lower.machine])),
        )
        for way in ways
    ]


def _in_common(name: Name, way: Way, asked: Named, served: Named) -> tuple[Named, Named]:
    """Of groups without a surer name, those by whose name both machines saw one key at least."""
    one, mine = _left(way.asks, asked)
    other, theirs = _left(way.serves, served)
    met = np.isin(pair_key(name(one), mine), pair_key(name(other), theirs))
    names = distinct(name(one[met]))

    def of_those(groups: Ints) -> Named:
        groups = distinct(groups)
        groups = groups[np.isin(name(groups), names)]
        return dict(zip(groups.tolist(), name(groups).tolist(), strict=True))

    return of_those(one), of_those(other)


def _left(table: Asks | Serves, named: Named) -> tuple[Ints, Ints]:
    """Group and key of what has a key and no name."""
    rows = ~table.shared & ~np.isin(table.group, list(named))
    return table.group[rows], table.key[rows]


def _named(hop: Hop, table: Asks | Serves, named: Named) -> Ints:
    groups, names = np.array(sorted(named.items()), np.int64).reshape(-1, 2).T
    place = np.searchsorted(groups, table.group)
    place = np.where(np.isin(table.group, groups), place, -1)
    name = np.where(place >= 0, at(names, place), hop.least(table.group))
    return pair_key(name, table.key)
