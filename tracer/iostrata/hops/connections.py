# SPDX-License-Identifier: Apache-2.0
"""Hops: a connection's ports, what is told of its addresses, and whose it is in, one number out."""

from __future__ import annotations

from typing import Final

from iostrata.columns import Ints, distinct
from iostrata.hops.hop import Link

PORTS_BITS: Final = 32
HOST_SHIFT: Final = 48


def number_of(ports: Ints, ends: Ints, host: Ints | int = 0) -> Ints:
    """``ports``: the client's << 16 | the server's; ``ends``: 0, where nothing is told; ``host``:
    16 bits of the client's own id, where it has one."""
    return host << HOST_SHIFT | ends << PORTS_BITS | ports


def whole_number(number: Ints) -> Ints:
    return number


def ports_of(number: Ints) -> Ints:
    return number & (1 << PORTS_BITS) - 1


def host_of(number: Ints) -> Ints:
    return number >> HOST_SHIFT


def host_and_ports_of(number: Ints) -> Ints:
    return host_of(number) << HOST_SHIFT | ports_of(number)


def ports_and_addresses_of(number: Ints) -> Ints:
    return number & (1 << HOST_SHIFT) - 1


def readdressed(link: Link) -> int:
    """How many asks were followed although each machine knows other addresses of their connection.

    Something between the two changes them, or what was found is of another client's calls: one
    with the same numbers and ports that was not recorded.
    """
    if not {ports_of, host_and_ports_of} & {*link.hop.names}:
        return 0
    asked = _addresses_of(link.asks.group[link.pairs.ask])
    served = _addresses_of(link.serves.group[link.pairs.serve])
    return len(distinct(link.pairs.ask[(asked != 0) & (served != 0) & (asked != served)]))


def _addresses_of(number: Ints) -> Ints:
    return ports_and_addresses_of(number) >> PORTS_BITS
