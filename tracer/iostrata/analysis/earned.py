# SPDX-License-Identifier: Apache-2.0
"""Pipeline: a window of pieces in, what it comes to out: stitch, attribute.

Windows are independent: each may be another process's, and what comes of it is sent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from iostrata.analysis.path import Path
from iostrata.analysis.sites import Sites, asleep_of, sites_of, unseen_of
from iostrata.analysis.who import Names, told_apart
from iostrata.attribute import Held, attribute, sweep
from iostrata.columns import Ints, coded, distinct
from iostrata.hops import Node, lift
from iostrata.stitch import Audit


@dataclass(frozen=True, eq=False)
class Earned:
    """What one window comes to.

    ``writes``: those that any of its pieces is of, each once. ``time_ns``: by place, of each of
    them. ``missed``: writes. ``served``: of reads, and from where.
    """

    writes: Ints
    time_ns: dict[int, Ints]
    behind: list[tuple[Ints, Ints, Ints, Ints]]
    asleep: tuple[Sites, list[tuple[str, int, int]]]
    ties: Counter[str]
    audits: tuple[Audit, ...]
    hidden: Counter[str]
    missed: Ints
    served: tuple[Ints, Ints]


def earned(
    path: Path, node: Node, rows: Ints, own: Ints, told: frozenset[int], names: Names
) -> Earned:
    """What some of a node's pieces come to, those of a window. Memory is that of one.

    ``own``: the write that each is of, below 0: of none that is kept. ``told``: the places of
    which it is told who is behind them.
    """
    lifted = lift(path.graph, node, rows)
    apart = told_apart(lifted, names)
    held = sweep(apart.spans, node.pieces.begin_ns[rows], node.pieces.end_ns[rows])
    kept = np.flatnonzero(own >= 0)
    writes, write = coded(own[kept])
    times: dict[int, Ints] = {}
    for level, time in attribute(_of_writes(held, own, kept, write), len(writes)).items():
        place = int(apart.ranks[level]) % len(path.layers)
        times[place] = times[place] + time if place in times else time
    behind: list[tuple[Ints, Ints, Ints, Ints]] = []
    for level, time in attribute(held, len(rows)).items() if told else ():
        place = int(apart.ranks[level]) % len(path.layers)
        if place in told:
            behind.extend(
                _held_by(place, who, own, part)
                for who, part in names.shared(int(apart.who[level]), time)
            )
    asleep = asleep_of(lifted, held, apart.ranks, own)
    hidden: Counter[str] = Counter()
    concealed = lifted.hidden.where(own[lifted.hidden.owner] >= 0)
    for place in distinct(concealed.rank).tolist():
        mine = concealed.where(concealed.rank == place)
        link = path.graph.links[place - len(path.graph.machines)]
        hidden[link.lower.trace.machine] += int((mine.end_ns - mine.begin_ns).sum())
    missed, read = own[lifted.missed], kept[kept < len(lifted.served)]
    return Earned(
        writes, times, behind, (sites_of(asleep), list(unseen_of(asleep))), lifted.ties,
        lifted.audits, hidden, missed[missed >= 0], (own[read], lifted.served[read]),
    )  # fmt: skip


def _of_writes(held: Held, own: Ints, kept: Ints, write: Ints) -> Held:
    """The same by ``write`` instead of by piece, of the pieces that are kept."""
    of_piece = np.full(len(own), -1)
    of_piece[kept] = write
    owner = of_piece[held.owner]
    if len(kept) == len(own):
        return replace(held, owner=owner)
    some = np.flatnonzero(owner >= 0)
    times = held.since_ns[some], held.until_ns[some]
    return Held(held.ranks, held.level[some], owner[some], *times)


def _held_by(place: int, who: int, write: Ints, time: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    rows = np.flatnonzero((write >= 0) & (time != 0))
    return write[rows], np.full(len(rows), place), np.full(len(rows), who), time[rows]
