# SPDX-License-Identifier: Apache-2.0
"""Path: machines' traces in, those that a write crosses out, tied by hops and clocks.

The machine with the workload is the top. Below it comes whichever machine a hop
leads to, and below that the next; what no hop leads to stands apart and is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from iostrata.clock import Alignment, Intervals, align
from iostrata.hops import HOPS
from iostrata.hops.hop import Asks, Hop, Link, Node, Pairs, Serves
from iostrata.hops.match import match
from iostrata.layers import HOPS as HOP_RANKS
from iostrata.layers import ROWS, STACK, Row
from iostrata.model import Crossing, Layer
from iostrata.stitch import Pieces, commits_of
from iostrata.trace.read import Trace

OS: Final = {"local": "OS", "guest": "guest OS", "host": "host OS", "server": "server OS"}
# What a machine's last calls lead to when nothing below it was recorded.
BEYOND_GUEST: Final = "hypervisor and below"
BEYOND_CLIENT: Final = "network and server"


@dataclass(frozen=True)
class Member:
    """A machine of the path; ``upper``: what leads to it, None for the top."""

    trace: Trace
    role: str
    upper: Trace | None = None


@dataclass(frozen=True)
class Path:
    """``members``: by the depth of their nodes. ``layers``: of each rank, None: the residual.

    ``apart``: a line each, of machines without a place here; ``interrupted``: of members
    that were not recorded to the end.
    """

    top: Node
    members: tuple[Member, ...]
    layers: tuple[Layer | None, ...]
    crossings: tuple[Crossing, ...]
    apart: tuple[str, ...]
    interrupted: tuple[str, ...] = ()

    def in_order(self) -> list[Layer]:
        """Every layer once, as the table shows them: from the top machine down to the devices."""
        several = len(self.members) > 1
        return list(dict.fromkeys(_in_order(self.members, several)))


@dataclass
class _Search:
    """The machines still to be placed, and what was found on the way."""

    left: list[tuple[Trace, str]]
    members: list[Member] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)

    def node(self, trace: Trace, pieces: Pieces, floor: str, member: Member) -> Node:
        depth = len(self.members)
        self.members.append(member)
        node = Node(trace, pieces, commits_of(trace), depth, floor)
        return replace(node, links=tuple(self._links(trace)))

    def _links(self, upper: Trace) -> Iterator[Link]:
        for hop in HOPS:
            if not self.left:
                return
            asks = hop.asks(upper)
            for lower, role in list(self.left) if len(asks) else []:
                serves, pieces = hop.serves(lower)
                clock = align(upper, lower, _keyed(asks), _keyed(serves)) if len(serves) else None
                if clock is None:
                    continue
                begin, end = clock.to_upper(serves.begin_ns), clock.to_upper(serves.end_ns)
                pairs = match(asks, serves, begin, end, clock.bound_ns)
                if not len(pairs.ask):
                    continue
                self.left.remove((lower, role))
                self.crossings.append(_crossing(hop, upper, lower, clock, asks, pairs))
                node = self.node(lower, pieces, hop.floor, Member(lower, role, upper))
                agents = np.unique(serves.agent[pairs.serve])
                yield Link(hop, upper, node, clock, asks, serves, begin, end, pairs, agents)


def _crossing(
    hop: Hop, upper: Trace, lower: Trace, clock: Alignment, asks: Asks, pairs: Pairs
) -> Crossing:
    keyed = pairs.crossing & ~asks.shared
    return Crossing(
        hop=hop.name,
        upper=upper.machine,
        lower=lower.machine,
        asked=int(np.count_nonzero(keyed)),
        followed=int(np.count_nonzero(keyed[np.unique(pairs.ask)])),
        ambiguous=pairs.ambiguous,
        clock=clock.source,
        bound_ns=clock.bound_ns,
        drift_ppm=clock.drift_ppm,
        contradiction=clock.contradiction or "",
    )


def path_of(
    top: tuple[Trace, str], others: Sequence[tuple[Trace, str]], pieces: Pieces, floor: str
) -> Path:
    """``top`` and ``others``: traces with their roles; ``pieces``: of the top's writes."""
    search = _Search(list(others))
    node = search.node(top[0], pieces, floor, Member(*top))
    members = tuple(search.members)
    several = len(members) > 1
    layers = tuple(
        _layer(members, number, _ROW[rank.row], several) if rank.row else None
        for number in range(len(members))
        for rank in STACK
    )
    apart = tuple(
        f"{trace.machine}: nothing ties its events to another machine's" for trace, _ in search.left
    )
    return Path(node, members, layers, tuple(search.crossings), apart)


_ROW: Final = {row.name: row for row in ROWS}
_HOP_ROWS: Final = frozenset(rank.row for rank in HOP_RANKS)


def _keyed(found: Asks | Serves) -> Intervals:
    return Intervals(found.key, found.begin_ns, found.end_ns).take(~found.shared)


def _layer(members: Sequence[Member], number: int, row: Row, several: bool) -> Layer:
    member = members[number]
    machine, segment = member.trace.machine, row.segment
    if segment == "upper OS":
        upper = next((each for each in members if each.trace is member.upper), member)
        machine, segment = upper.trace.machine, OS[upper.role]
    elif segment == "OS":
        segment = OS[member.role]
    elif segment == "beyond":
        segment = BEYOND_CLIENT
    elif segment == "device" and member.role == "guest":
        # Whatever was not followed down: a guest has no device of its own.
        segment = BEYOND_GUEST
    name = f"{machine}/{row.name}" if several else row.name
    return Layer(name, segment, machine, row.meaning)


def _in_order(members: Sequence[Member], several: bool) -> Iterator[Layer]:
    """Each machine: the way to it, its own rows and those of the ways from it, its devices."""
    for number, member in enumerate(members):
        below = [at for at, other in enumerate(members) if other.upper is member.trace]
        own = [row for row in ROWS if row.name not in _HOP_ROWS]
        hop = [row for row in ROWS if row.name in _HOP_ROWS]
        for row in hop:
            if row.segment not in ("upper OS", "OS"):
                yield _layer(members, number, row, several)
        for row in (*hop, *own):
            if row.segment == "OS":
                yield _layer(members, number, row, several)
        for lower in below:
            yield from (
                _layer(members, lower, row, several) for row in hop if row.segment == "upper OS"
            )
        for row in own:
            if row.segment != "OS":
                yield _layer(members, number, row, several)
