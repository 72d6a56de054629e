# SPDX-License-Identifier: Apache-2.0
"""Hops: ways from machine to machine in, the same out, the group in the key where both know it.

Two machines know a connection by the same number, unless a router between them changes a
port. Where it is on both sides of a way, with a key in common, it goes this way: what else
has the same keys (another client's calls, those to another server) is none of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from iostrata.columns import Ints, pair_key
from iostrata.hops.hop import Asks, Serves
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


def told_apart(ways: Sequence[Way]) -> list[Way]:
    """Keys of one hop's ways that no other group can have."""
    asked: dict[str, list[Ints]] = defaultdict(list)
    served: dict[str, list[Ints]] = defaultdict(list)
    for way in ways:
        groups = in_common(way)
        asked[way.upper.machine].append(groups)
        served[way.lower.machine].append(groups)

    def with_group(table: Asks | Serves, groups: Sequence[Ints]) -> Ints:
        known = np.isin(table.group, np.concatenate(groups))
        return np.where(known, pair_key(table.group, table.key), table.key)

    return [
        replace(
            way,
            asks=replace(way.asks, key=with_group(way.asks, asked[way.upper.machine])),
            serves=replace(way.serves, key=with_group(way.serves, served[way.lower.machine])),
        )
        for way in ways
    ]


def in_common(way: Way) -> Ints:
    """The groups of which both machines saw one key at least."""
    asks, serves = way.asks, way.serves
    keys = pair_key(serves.group, serves.key)[~serves.shared]
    both = ~asks.shared & np.isin(pair_key(asks.group, asks.key), keys)
    return np.unique(asks.group[both])
