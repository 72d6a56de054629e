# SPDX-License-Identifier: Apache-2.0
"""Pipeline: a window of pieces in, what it comes to out: stitch, attribute.

Windows are independent: each may be another process's, and what comes of it is sent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.kept import Numbers
from iostrata.analysis.path import Path
from iostrata.analysis.sites import (
    BLOCKED,
    HELD,
    Sites,
    Wakers,
    are_let_go,
    asleep_of,
    released_by,
    sites_of,
    stretches,
    unseen_of,
    wakers_of,
)
from iostrata.analysis.who import Names, told_apart
from iostrata.attribute import Shared, attribute, blocks, share
from iostrata.columns import Ints, coded, distinct
from iostrata.hops import Node, lift
from iostrata.model import Crowd, Who
from iostrata.stitch import Audit, Section, SpanList

Columns = tuple[Ints, ...]


@dataclass(frozen=True, eq=False)
class Earned:
    """What one window comes to.

    ``writes``: those that any of its pieces is of, each once. ``time_ns``: by place, of each of
    them, of half the bits where those are enough. ``behind``: writes, places,
    who is behind that (numbers of ``names``) and ns. ``missed``: writes. ``served``: of reads, and
    from where. ``asleep``: what pieces slept for no cause that was observed: ns, by where, by who
    ended it (or let go what was held back), and what nobody was seen to end.
    """

    writes: Ints
    time_ns: dict[int, Numbers]
    behind: list[Columns]
    names: tuple[Who | Crowd, ...]
    asleep: tuple[int, Sites, Wakers, list[tuple[str, int, int]]]
    ties: Counter[str]
    audits: tuple[Audit, ...]
    hidden: Counter[str]
    missed: Ints
    served: tuple[Ints, Ints]


def earned(
    path: Path, node: Node, section: Section, write: Ints, told: NDArray[np.bool_]
) -> Earned:
    """What some of a node's pieces come to, those of a window. Memory is that of one.

    ``write``: of each of all the node's pieces, which one it is of, below 0: of none that is kept.
    ``told``: of each place, whether it is told who is behind it.
    """
    rows, own = section.rows, section.told(write, -1)
    lifted = lift(path.graph, node, rows, told=section.are_own)
    pieces = lifted.views[0].window.pieces
    kept = np.flatnonzero(own >= 0)
    writes, number = coded(own[kept])
    of_piece = np.full(len(own), -1)
    of_piece[kept] = number
    times: dict[int, Numbers] = {}
    behind: list[Columns] = []
    # Who is met first has the lower number, and of two at once the higher one holds the time.
    names = Names()
    slept, held = SpanList(), SpanList()
    for first, end, spans in blocks(lifted.spans, len(rows)):
        apart = told_apart(spans, lifted.views, names)
        during = pieces.begin_ns[first:end], pieces.end_ns[first:end]

        def told_of(levels: Ints, ranks: Ints = apart.ranks) -> tuple[Ints, NDArray[np.bool_]]:
            place = ranks[levels] % len(path.layers)
            return place, told[place] | are_let_go(ranks[levels])

        shared = share(apart.spans, during, told_of, of_piece[first:end], len(writes))
        place = apart.ranks[shared.held.ranks] % len(path.layers)
        slept.extend(stretches(shared.held, apart.ranks, first, BLOCKED))
        held.extend(stretches(shared.held, apart.ranks, first, HELD))
        _add(times, shared)
        credit = attribute(shared.held, end - first, told[place])
        del spans, shared
        some = np.flatnonzero(own[first + credit.owner] >= 0)
        level, owner = credit.rank[some], credit.owner[some]
        row, who, time_ns = names.shared(level, apart.who, credit.time_ns[some])
        place = apart.ranks[level[row]] % len(path.layers)
        behind.append((own[first + owner[row]], place, who, time_ns))
    left, back = slept.collect(), held.collect()
    asleep = asleep_of(lifted, left.where(own[left.owner] >= 0), BLOCKED)
    asleep_ns = sum(int(some.took_ns.sum()) for some in asleep)
    hidden: Counter[str] = Counter()
    concealed = lifted.hidden.where(own[lifted.hidden.owner] >= 0)
    for place in distinct(concealed.rank).tolist():
        mine = concealed.where(concealed.rank == place)
        link = path.graph.links[place - len(path.graph.machines)]
        hidden[link.lower.trace.machine] += int((mine.end_ns - mine.begin_ns).sum())
    missed, read = own[lifted.missed], kept[kept < len(lifted.served)]
    wakers = wakers_of(asleep)
    wakers.update(released_by(asleep_of(lifted, back.where(own[back.owner] >= 0), HELD)))
    causes = asleep_ns, sites_of(asleep), wakers, list(unseen_of(asleep))
    return Earned(
        writes, times, behind, names.every, causes, lifted.ties, lifted.audits, hidden,
        missed[missed >= 0], (own[read], lifted.served[read]),
    )  # fmt: skip


def _add(times: dict[int, Numbers], shared: Shared) -> None:
    """By place, to what each had of each write."""
    for place, time_ns in zip(shared.places.tolist(), shared.time_ns, strict=True):
        before = times.get(place)
        times[place] = time_ns if before is None else before.astype(np.int64) + time_ns
