# SPDX-License-Identifier: Apache-2.0
"""Hops: a machine's packets of a connection and places in its streams in, when these passed out.

What TCP carries is a stream of bytes: whatever cuts it into packets, merges or sends them again,
a byte's sequence number is the same on every machine, and at every device of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from iostrata.columns import NEVER, Ints, columns_of, distinct, order_of
from iostrata.hops.connections import number_of
from iostrata.trace import Trace

SENT: Final = "packet_sent"
RECEIVED: Final = "packet_received"
UNSEEN: Final = -1


@dataclass(frozen=True, eq=False)
class Packets:
    """Those of one point, in order of time: ``number`` of their connection, ``to_server``."""

    time_ns: Ints
    number: Ints
    to_server: Ints
    device: Ints
    sequence: Ints
    size_bytes: Ints

    def rows(self, rows: Ints) -> Packets:
        return Packets(**{name: column[rows] for name, column in vars(self).items()})


class Card:
    """The packets of a machine: what it sent by its devices, and what it received by them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __bool__(self) -> bool:
        return any(len(self._trace.points[point]) for point in (SENT, RECEIVED))

    def sent_ns(self, numbers: Ints, to_server: bool, places: Ints) -> Ints:
        """When all before each of some places of a stream (32 bits, in order of time) had left by
        the last of its devices; ``UNSEEN``: that was not seen."""
        found = np.full(len(places), UNSEEN)
        for times in self._by_device(self._sent, numbers, to_server, places):
            np.maximum(found, times, out=found)
        return found

    def received_ns(self, numbers: Ints, to_server: bool, places: Ints) -> Ints:
        """The same of what came in, by the first of them."""
        first = np.full(len(places), NEVER)
        for times in self._by_device(self._received, numbers, to_server, places):
            np.minimum(first, np.where(times == UNSEEN, NEVER, times), out=first)
        return np.where(first == NEVER, UNSEEN, first)

    @cached_property
    def _sent(self) -> Packets:
        return packets_of(self._trace, SENT)

    @cached_property
    def _received(self) -> Packets:
        return packets_of(self._trace, RECEIVED)

    @staticmethod
    def _by_device(
        packets: Packets, numbers: Ints, to_server: bool, places: Ints
    ) -> Iterator[Ints]:
        mine = np.isin(packets.number, numbers) & (packets.to_server == to_server)
        packets = packets.rows(np.flatnonzero(mine))
        for device in distinct(packets.device).tolist():
            yield passed_ns(packets.rows(np.flatnonzero(packets.device == device)), places)


def packets_of(trace: Trace, point: str) -> Packets:
    found = columns_of(
        trace.points[point], "connection", "ends", "to_server", "device", "sequence", "size_bytes"
    )
    packets = Packets(
        time_ns=found["time_ns"],
        number=number_of(found["connection"], found["ends"]),
        to_server=found["to_server"],
        device=found["device"],
        sequence=found["sequence"],
        size_bytes=found["size_bytes"],
    )
    return packets.rows(order_of(packets.time_ns))


def passed_ns(packets: Packets, places: Ints) -> Ints:
    """When all before each of some places (32 bits, in order of time) had passed for the first
    time; ``UNSEEN``: the byte before it was not seen."""
    if not len(packets.time_ns) or not len(places):
        return np.full(len(places), UNSEEN)
    origin = int(places[0])
    begin = unrolled(packets.sequence, origin)
    end = begin + packets.size_bytes
    edges = np.unique(np.concatenate([begin, end]))
    first = np.full(len(edges), NEVER)
    low, high = np.searchsorted(edges, begin), np.searchsorted(edges, end)
    if (high - low == 1).all():
        np.minimum.at(first, low, packets.time_ns)
    else:
        # Sent again and cut otherwise: what passed first is written last.
        for row in range(len(begin) - 1, -1, -1):
            first[low[row] : high[row]] = packets.time_ns[row]
    seen = first != NEVER
    # What is behind a byte waits for it.
    whole = np.maximum.accumulate(np.where(seen, first, UNSEEN))
    place = np.searchsorted(edges, unrolled(places, origin)) - 1
    known = (place >= 0) & seen[place]
    return np.where(known, whole[place], UNSEEN)


def unrolled(sequence: Ints, origin: int) -> Ints:
    """Numbers of 32 bits, each nearer to the one before it than half of them, as they would be if
    they had more; ``origin``: what is near the first."""
    steps = np.diff(sequence, prepend=origin)
    return origin + np.cumsum((steps + (1 << 31)) % (1 << 32) - (1 << 31))
