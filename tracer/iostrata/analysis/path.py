# SPDX-License-Identifier: Apache-2.0
"""Path: a recording's machines in, the graph that writes cross and what its places are called out.

Every machine with a workload is a top. Where none has one, what machines did for
others is the writes: of those that no recorded machine asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from iostrata.columns import Ints, distinct
from iostrata.hops import HOPS, READ_MARK, Graph, Link, readdressed
from iostrata.layers import HOPS as HOP_RANKS
from iostrata.layers import ROWS, STACK, Row
from iostrata.model import Crossing, Layer
from iostrata.trace import Trace

LOCAL: Final = "local"
NETWORK: Final = "network"
_ROW: Final = {row.name: row for row in ROWS}
BEYOND: Final = frozenset(hop.beyond for hop in HOPS)
"""The segments of what other machines did, where these were not recorded."""
OWN_WRITES: Final = "; its own writes are in the table, and followed to no other machine"
_HOP_ROWS: Final = frozenset(rank.row for rank in HOP_RANKS)


@dataclass(frozen=True)
class Member:
    """A machine of the path. ``role``: what people call it."""

    trace: Trace
    role: str

    @property
    def os(self) -> str:
        return "OS" if self.role == LOCAL else f"{self.role} OS"


@dataclass(frozen=True)
class Path:
    """``members``: the machines that writes reach, the tops before what is below them.

    ``apart``: a line each, of machines without a place here, or that lead to no other one of them
    although they asked some; ``interrupted``: of members that were not recorded to the end.
    ``alone``: tops that nothing ties to any other machine.
    """

    graph: Graph
    members: tuple[Member, ...]
    apart: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    alone: frozenset[str] = frozenset()

    @property
    def several(self) -> bool:
        return len(self.members) > 1

    @cached_property
    def layers(self) -> tuple[Layer | None, ...]:
        """Of each rank of each place of the graph, None: the residual, or no place of these."""
        machines = {member.trace.machine: member for member in self.members}
        places: list[tuple[Trace, Trace]] = [(trace, trace) for trace in self.graph.machines]
        places += [(link.upper, link.lower.trace) for link in self.graph.links]
        return tuple(
            self._layer(
                machines[upper.machine],
                machines[(upper if rank.of_upper else lower).machine],
                _ROW[rank.row],
            )
            if rank.row and {upper.machine, lower.machine} <= machines.keys()
            else None
            for upper, lower in places
            for rank in STACK
        )

    def layer_of(self, rank: int) -> Layer | None:
        """Of a rank that was lifted; -1: nobody's."""
        return self.layers[rank % len(self.layers)] if rank >= 0 else None

    def leads_nowhere(self, layer: Layer) -> bool:
        """Whether its time is another machine's, and none of those here is that one."""
        return bool(self.links) and layer.machine in self.alone and layer.segment in BEYOND

    def crossed(self, places: Iterable[int]) -> tuple[tuple[str, str], ...]:
        """Machines, and rows there, of those places that a hop leads to."""
        own = len(self.graph.machines) * len(STACK)
        layers = (self.layers[place] for place in sorted(places) if place >= own)
        return tuple(dict.fromkeys((layer.machine, layer.row) for layer in layers if layer))

    def place_of(self, ranks: Ints) -> Ints:
        """Of ranks that were lifted, rows of ``layers``; -1 stays."""
        return np.where(ranks >= 0, ranks % len(self.layers), -1)

    def in_order(self) -> list[Layer]:
        """Every layer once, as the table shows them: from the top machines down to the devices."""
        return list(self._ordered)

    @property
    def crossings(self) -> tuple[Crossing, ...]:
        return tuple(_crossing(link) for link in self.links)

    @property
    def links(self) -> tuple[Link, ...]:
        """Those that the writes may take, in the order of the machines that they lead to."""
        order = [member.trace.machine for member in self.members]
        links = [link for link in self.graph.links if link.upper.machine in order]
        return tuple(
            sorted(links, key=lambda link: (order.index(link.lower.trace.machine),
                                            order.index(link.upper.machine)))
        )  # fmt: skip

    @property
    def carriers(self) -> tuple[Trace, ...]:
        """Machines that do nothing of what the writes wait for, but carry what is said of it."""
        names = carriers_of(self.links)
        return tuple(trace for trace in self.graph.machines if trace.machine in names)

    def times(self, times: Ints, one: Trace, other: Trace) -> Ints:
        """Times of one machine's clock in the other's; as they are where nothing relates them."""
        for link, down in self.graph.way(one, other) or ():
            times = link.clock.to_lower(times) if down else link.clock.to_upper(times)
        return times

    @cached_property
    def _ordered(self) -> tuple[Layer, ...]:
        return tuple(dict.fromkeys(self._in_order()))

    def _in_order(self) -> Iterator[Layer]:
        """Each machine: the ways to it, its own rows and those of the ways from it, its devices."""
        members = {member.trace.machine: member for member in self.members}
        own = [row for row in ROWS if row.name not in _HOP_ROWS]
        hop = [row for row in ROWS if row.name in _HOP_ROWS]
        for member in self.members:
            for row in hop:
                if row.segment not in ("upper OS", "OS"):
                    yield self._layer(member, member, row)
            for row in (*hop, *own):
                if row.segment == "OS":
                    yield self._layer(member, member, row)
            for link in self.graph.links_of(member.trace):
                lower = members[link.lower.trace.machine]
                yield from (
                    self._layer(member, lower, row) for row in hop if row.segment == "upper OS"
                )
            for row in own:
                if row.segment != "OS":
                    yield self._layer(member, member, row)

    def _layer(self, upper: Member, lower: Member, row: Row) -> Layer:
        member = upper if row.segment == "upper OS" else lower
        machine, segment = member.trace.machine, row.segment
        if segment in ("upper OS", "OS"):
            segment = member.os
        for hop in HOPS:
            if segment == hop.leaf and (segment != "device" or member.role == hop.asker):
                # Whatever was not followed down.
                segment = hop.beyond
        name = f"{machine}/{row.name}" if self.several else row.name
        return Layer(name, segment, machine, row.meaning)


def _crossing(link: Link) -> Crossing:
    untied = link.pairs.ambiguous
    keyed = link.pairs.crossing & (~link.asks.shared | link.hop.unkeyed | untied)
    clock = link.clock
    return Crossing(
        hop=link.hop.name,
        upper=link.upper.machine,
        lower=link.lower.trace.machine,
        asked=int(np.count_nonzero(keyed)),
        followed=int(np.count_nonzero(keyed[distinct(link.pairs.ask)])),
        ambiguous=int(np.count_nonzero(untied)),
        clock=clock.source,
        bound_ns=clock.bound_ns,
        drift_ppm=clock.drift_ppm,
        contradiction=clock.contradiction or "",
        bypassed=tuple(_disks(link)),
        readdressed=readdressed(link),
        by="interrupt" if link.hop.unkeyed else "key",
        beyond=link.hop.beyond,
    )


def _disks(link: Link) -> dict[str, None]:
    """The names of those that it does not lead to."""
    groups = distinct(link.bypassed & ~READ_MARK).tolist()
    return dict.fromkeys(link.upper.facts.device_name(group) for group in groups)


def path_of(
    graph: Graph, roles: Sequence[str], notes: Sequence[str], tops: Sequence[Trace]
) -> Path:
    """The part of the graph that the tops' writes may reach.

    ``roles``, ``notes`` (what went wrong, or empty): of its machines.
    """
    number = {trace.machine: number for number, trace in enumerate(graph.machines)}
    below = [graph.below(top) for top in tops]
    beneath = {trace.machine for reach in below for trace in reach[1:]}
    first = [top for top in tops if top.machine not in beneath]
    reached = {trace.machine: trace for reach in (first, *below) for trace in reach}
    links = [link for link in graph.links if link.upper.machine in reached]
    carriers = carriers_of(links)
    members = tuple(Member(trace, roles[number[name]]) for name, trace in reached.items())
    alone = _alone(graph, first, carriers)
    machines = list(zip(graph.machines, roles, strict=True))
    untied = [
        f"{trace.machine}: {_why_apart(graph, trace, role)}"
        for trace, role in machines
        if trace.machine not in reached and trace.machine not in carriers
    ]
    if links or not untied:
        untied += [
            f"{trace.machine}: {_why_apart(graph, trace, role)}{OWN_WRITES}"
            for trace, role in machines
            if trace.machine in alone and _asks_others(graph, trace, role)
        ]
    noted = {name: f"{name}: {notes[place]}" for name, place in number.items() if notes[place]}
    return Path(
        graph,
        members,
        (*untied, *(note for name, note in noted.items() if name not in reached)),
        tuple(note for name, note in noted.items() if name in reached),
        alone,
    )


def _alone(graph: Graph, tops: Sequence[Trace], carriers: frozenset[str]) -> frozenset[str]:
    """Those that nothing ties to any other machine, of several."""
    if len(graph.machines) == 1:
        return frozenset()
    ends = ((link.upper.machine, link.lower.trace.machine) for link in graph.links)
    tied = {name for pair in ends for name in pair} | carriers
    return frozenset(top.machine for top in tops) - tied


def _asks_others(graph: Graph, trace: Trace, role: str) -> bool:
    """Whether it has no disk of its own, or asked anything by a network."""
    return any(
        hop.asker == role or (hop.way == NETWORK and not hop.within and len(hop.asks(trace)))
        for hop in graph.hops
    )


def carriers_of(links: Sequence[Link]) -> frozenset[str]:
    ways = (link.ways for link in links if link.ways)
    return frozenset(carrier.machine for way in ways for carrier in way.carriers)


def _why_apart(graph: Graph, trace: Trace, role: str) -> str:
    if any(hop.asker == role and not len(hop.asks(trace)) for hop in graph.hops):
        return (
            "it recorded nothing that it asked of another machine; what that did for it may be "
            f"taken for what it did for another {role} that asked the same"
        )
    for link in graph.links:
        if link.lower.trace is trace and link.upper is not trace:
            return f"what it served was for {link.upper.machine}, which stands apart itself"
    why = (*(hop.untied(trace) for hop in HOPS), graph.untied.get(trace.machine, ""))
    return next(filter(None, why), "nothing ties its events to another machine's" + _carries(trace))


def _carries(trace: Trace) -> str:
    if not trace.facts.vmms:
        return ""
    return "; what its virtual machines send by their network cards is not followed through it"
