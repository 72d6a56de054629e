# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, a line for each of the NFS client's connections that broke or lost
what it sent out."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import numpy as np

from iostrata import units
from iostrata.columns import Ints, columns_of, distinct, integers
from iostrata.stitch import Downs, downs_of
from iostrata.trace import Trace

HALF: Final = (1 << 64) - 1


def troubled_connections(trace: Trace) -> Iterator[str]:
    """Of those by which recorded calls went; what was resent is of anybody's calls on them."""
    told = columns_of(
        trace.points["rpc_connection"], "connection", "remote_high", "remote_low",
        "retransmit_count",
    )  # fmt: skip
    calls = integers(trace.points["rpc_retransmit"]["connection"])
    downs = downs_of(trace)
    used = distinct(integers(trace.points["rpc_call"]["connection"]))
    while len(used):
        one = _of_one_transport(downs, int(used[0]))
        of_it = np.flatnonzero(np.isin(told["connection"], one))
        words = [
            *_away(downs, one),
            *_again(int(np.isin(calls, one).sum()), "call"),
            *_again(_grown(told["retransmit_count"][of_it]), "TCP segment"),
        ]
        if words:
            yield f"to {_server(told, of_it, int(one[0]))}: {', '.join(words)}"
        used = np.setdiff1d(used, one)


def _of_one_transport(downs: Downs, connection: int) -> Ints:
    """A connection's number, and those that its transport had after or before it."""
    whose = downs.up_transport[downs.up_key == connection]
    others = downs.up_key[np.isin(downs.up_transport, whose)]
    return distinct(np.append(others, connection))


def _away(downs: Downs, connections: Ints) -> Iterator[str]:
    whose = downs.up_transport[np.isin(downs.up_key, connections)]
    row = np.isin(downs.transport, whose)
    if row.any():
        took = units.duration(int((downs.end_ns - downs.begin_ns)[row].sum()))
        times = np.count_nonzero(row)
        yield f"none for {took} ({times} time{'s' if times > 1 else ''})"


def _again(count: int, what: str) -> Iterator[str]:
    if count:
        yield f"{count} {what if count == 1 else units.plural(what)} sent again"


def _grown(counts: Ints) -> int:
    """By how much a counter grew while it was told; a new socket's begins at 0."""
    steps = np.diff(counts)
    return int(np.where(steps < 0, counts[1:], steps).sum())


def _server(told: dict[str, Ints], rows: Ints, connection: int) -> str:
    """By address, or, as it was not told, by its port."""
    if not len(rows):
        return f"port {connection & 0xFFFF}"
    last = rows[-1]
    return str(address_of(int(told["remote_high"][last]), int(told["remote_low"][last])))


def address_of(high: int, low: int) -> IPv4Address | IPv6Address:
    """Of an address as it was recorded: an IPv6 one, or an IPv4 one mapped into it."""
    address = IPv6Address((high & HALF) << 64 | low & HALF)
    return address.ipv4_mapped or address
