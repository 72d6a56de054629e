# SPDX-License-Identifier: Apache-2.0
"""Hops: a link between two machines, and those that may carry its packets, in; where on the way
between the two each call and each reply was when, out.

A machine that carries serves nothing: it is no end of a link, but a part of its way. Its clock is
found as a lower machine's is, of what passed through it there and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from iostrata.clock import Alignment, Intervals, align
from iostrata.columns import Ints
from iostrata.hops.connections import ports_and_addresses_of
from iostrata.hops.hop import Link
from iostrata.hops.packets import UNSEEN, Card
from iostrata.hops.route import Carrier, Streams, Ways
from iostrata.trace import Trace

CLIENT, VNIC, CARRIER, WIRE, SERVER = (
    f"network.{part}" for part in ("client", "vnic", "carrier", "wire", "server")
)


@dataclass(frozen=True, eq=False)
class Passage:
    """When each ask's call and its reply came to a machine and left it, in its own clock.

    ``UNSEEN``: it was not seen to, as no call comes to who makes it.
    """

    call_in_ns: Ints
    call_out_ns: Ints
    reply_in_ns: Ints
    reply_out_ns: Ints

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which of them it was seen to carry there and back."""
        seen: NDArray[np.bool_] = self.call_in_ns != UNSEEN
        for times in (self.call_out_ns, self.reply_in_ns, self.reply_out_ns):
            seen &= times != UNSEEN
        return seen

    def to_upper(self, clock: Alignment) -> Passage:
        return Passage(**{
            name: np.where(times == UNSEEN, UNSEEN, clock.to_upper(times))
            for name, times in vars(self).items()
        })  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Between:
    """A machine between the two, in the upper one's clock."""

    trace: Trace
    clock: Alignment
    passage: Passage
    order_ns: float


def ways_of(link: Link, machines: Sequence[Trace]) -> Ways | None:
    """None: what was asked cannot be told in the stream of its connection, or no packet is known.

    ``machines``: all that were recorded.
    """
    streams = link.hop.streams(link)
    upper, lower = Card(link.upper), Card(link.lower.trace)
    if streams is None or not upper:
        return None
    near = _passage(upper, link, streams)
    far = _passage(lower, link, streams).to_upper(link.clock)
    between = sorted(_between(link, machines, streams, near), key=lambda one: one.order_ns)
    # To its guests' cards a hypervisor is what drives them.
    hosted = bool(between and between[0].trace.facts.vmms)
    there = [(near.call_out_ns, CLIENT)]
    back = [(near.reply_in_ns, CLIENT)]
    for number, one in enumerate(between):
        way = VNIC if hosted and number == 0 else WIRE
        there += [(one.passage.call_in_ns, way), (one.passage.call_out_ns, CARRIER)]
        back += [(one.passage.reply_out_ns, way), (one.passage.reply_in_ns, CARRIER)]
    if lower:
        there, back = [*there, (far.call_in_ns, WIRE)], [*back, (far.reply_out_ns, WIRE)]
    last = SERVER if lower else ""
    return Ways(
        there_ns=_points([times for times, _ in there]),
        there=(*(rank for _, rank in there), last),
        back_ns=_points([times for times, _ in reversed(back)]),
        back=(last, *(rank for _, rank in reversed(back))),
        carriers=tuple(Carrier(one.trace.machine, one.clock) for one in between),
        hosted=hosted,
    )


def _points(times: Sequence[Ints]) -> Ints:
    """One row a point; where one was not seen, none was."""
    found = np.stack(times)
    return np.where((found == UNSEEN).any(axis=0), UNSEEN, found)


def _between(
    link: Link, machines: Sequence[Trace], streams: Streams, near: Passage
) -> Iterator[_Between]:
    ends = {link.upper.machine, link.lower.trace.machine}
    for trace in machines:
        card = Card(trace) if trace.machine not in ends else None
        if not card:
            continue
        passage = _passage(card, link, streams)
        row = np.flatnonzero(passage.whole & (near.call_out_ns != UNSEEN)
                             & (near.reply_in_ns != UNSEEN))  # fmt: skip
        asks = Intervals(row, near.call_out_ns[row], near.reply_in_ns[row])
        serves = Intervals(row, passage.call_in_ns[row], passage.reply_out_ns[row])
        clock = align(link.upper, trace, asks, serves) if len(row) else None
        if clock and not clock.contradiction:
            passage = passage.to_upper(clock)
            order_ns = float(np.median(passage.call_in_ns[row]))
            yield _Between(trace, clock, passage, order_ns)


def _passage(card: Card, link: Link, streams: Streams) -> Passage:
    asks, serves = (
        ports_and_addresses_of(table.group[rows])
        for table, rows in ((link.asks, link.pairs.ask), (link.serves, link.pairs.serve))
    )
    found = Passage(*(np.full(len(link.asks), UNSEEN) for _ in range(4)))
    connections = np.unique(np.stack([asks, serves], axis=1), axis=0) if len(asks) else ()
    for numbers in connections:
        # What is between may know it by either's addresses, or here by one and there by the other.
        mine = (asks == numbers[0]) & (serves == numbers[1])
        row = np.unique(link.pairs.ask[mine])
        for ends, to_server, into, out in (
            (streams.call_end, True, found.call_in_ns, found.call_out_ns),
            (streams.reply_end, False, found.reply_in_ns, found.reply_out_ns),
        ):
            known = row[ends[row] != UNSEEN]
            into[known] = card.received_ns(numbers, to_server, ends[known])
            out[known] = card.sent_ns(numbers, to_server, ends[known])
    return found


def parts_of(
    ways: Ways | None, ask: Ints, there: tuple[Ints, Ints], back: tuple[Ints, Ints]
) -> Iterator[tuple[str, Ints, Ints]]:
    """Each part of some asks' ways of which all points were seen: its rank, from when, to when.

    ``there``, ``back``: the ways as a whole. The parts are in order, and none reaches beyond that:
    what two clocks contradict each other by is nobody's.
    """
    if ways:
        yield from _parts_of(ways.there, ways.there_ns[:, ask], *there)
        yield from _parts_of(ways.back, ways.back_ns[:, ask], *back)


def _parts_of(
    ranks: Sequence[str], points_ns: Ints, begin_ns: Ints, end_ns: Ints
) -> Iterator[tuple[str, Ints, Ints]]:
    seen = (points_ns != UNSEEN).all(axis=0)
    end_ns = np.maximum(begin_ns, end_ns)
    times = np.clip(points_ns, begin_ns, end_ns)
    times = np.maximum.accumulate(np.concatenate([begin_ns[None], times, end_ns[None]]))
    times = np.where(seen, times, begin_ns)
    for rank, (since, until) in zip(ranks, pairwise(times), strict=True):
        if rank:
            yield rank, since, until
