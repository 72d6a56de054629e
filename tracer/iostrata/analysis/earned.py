# SPDX-License-Identifier: Apache-2.0
"""Pipeline: a window of pieces in, what it comes to out: stitch, attribute.

Windows are independent: each may be another process's, and what comes of it is sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from iostrata.analysis.path import Path
from iostrata.analysis.sites import Sites, asleep_of, sites_of, unexplained, unseen_of
from iostrata.analysis.who import Names, told_apart
from iostrata.attribute import attribute, blocks, sweep
from iostrata.columns import Ints, coded, distinct
from iostrata.hops import Node, lift
from iostrata.model import Crowd, Who
from iostrata.stitch import Audit, SpanList


@dataclass(frozen=True, eq=False)
class Earned:
    """What one window comes to.

    ``writes``: those that any of its pieces is of, each once. ``time_ns``: by place, of each of
    them. ``names``: of whom ``behind`` has the numbers. ``missed``: writes. ``served``: of reads,
    and from where.
    """

    writes: Ints
    time_ns: dict[int, Ints]
    behind: list[tuple[Ints, Ints, Ints, Ints]]
    names: tuple[Who | Crowd, ...]
    asleep: tuple[Sites, list[tuple[str, int, int]]]
    ties: Counter[str]
    audits: tuple[Audit, ...]
    hidden: Counter[str]
    missed: Ints
    served: tuple[Ints, Ints]


def earned(path: Path, node: Node, rows: Ints, own: Ints, told: frozenset[int]) -> Earned:
    """What some of a node's pieces come to, those of a window. Memory is that of one.

    ``own``: the write that each is of, below 0: of none that is kept. ``told``: the places of
    which it is told who is behind them.
    """
    lifted = lift(path.graph, node, rows)
    kept = np.flatnonzero(own >= 0)
    writes, write = coded(own[kept])
    of_piece = np.full(len(own), -1)
    of_piece[kept] = write
    times: dict[int, Ints] = defaultdict(lambda: np.zeros(len(writes), np.int64))
    behind: list[tuple[Ints, Ints, Ints, Ints]] = []
    # Who is met first has the lower number, and of two at once the higher one holds the time.
    names = Names()
    slept = SpanList()
    for first, end, spans in blocks(lifted.spans, len(rows)):
        apart, block = told_apart(spans, lifted.views, names), rows[first:end]
        held = sweep(apart.spans, node.pieces.begin_ns[block], node.pieces.end_ns[block])
        for level, time in attribute(held, len(block)).items():
            place, who = int(apart.ranks[level]) % len(path.layers), int(apart.who[level])
            # With who is behind it, there are hundreds of levels, most of them of few pieces.
            some = np.flatnonzero((time != 0) & (of_piece[first:end] >= 0))
            np.add.at(times[place], of_piece[first + some], time[some])
            if place in told:
                behind.extend(
                    _held_by(place, person, own[first + some], part)
                    for person, part in names.shared(who, time[some])
                )
        slept.extend(unexplained(held, apart.ranks, first))
    left = slept.collect()
    asleep = asleep_of(lifted, left.where(own[left.owner] >= 0))
    hidden: Counter[str] = Counter()
    concealed = lifted.hidden.where(own[lifted.hidden.owner] >= 0)
    for place in distinct(concealed.rank).tolist():
        mine = concealed.where(concealed.rank == place)
        link = path.graph.links[place - len(path.graph.machines)]
        hidden[link.lower.trace.machine] += int((mine.end_ns - mine.begin_ns).sum())
    missed, read = own[lifted.missed], kept[kept < len(lifted.served)]
    return Earned(
        writes, dict(times), behind, names.every, (sites_of(asleep), list(unseen_of(asleep))),
        lifted.ties, lifted.audits, hidden, missed[missed >= 0], (own[read], lifted.served[read]),
    )  # fmt: skip


def _held_by(place: int, who: int, write: Ints, time: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    rows = np.flatnonzero(time)
    return write[rows], np.full(len(rows), place), np.full(len(rows), who), time[rows]
