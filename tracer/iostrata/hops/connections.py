# SPDX-License-Identifier: Apache-2.0
"""Hops: a connection's ports and what is told of its addresses in, one number out."""

from __future__ import annotations

from typing import Final

from iostrata.columns import Ints, distinct
from iostrata.hops.hop import Link

PORTS_BITS: Final = 32


def number_of(ports: Ints, ends: Ints) -> Ints:
    """``ports``: the client's << 16 | the server's; ``ends``: 0, where nothing is told."""
    return ends << PORTS_BITS | ports


def whole_number(number: Ints) -> Ints:
    return number


def ports_of(number: Ints) -> Ints:
    return number & (1 << PORTS_BITS) - 1


def readdressed(link: Link) -> int:
    """How many asks were followed although each machine knows other addresses of their connection.

    Something between the two changes them, or what was found is of another client's calls: one
    with the same numbers and ports that was not recorded.
    """
    if ports_of not in link.hop.names:
        return 0
    asked = link.asks.group[link.pairs.ask] >> PORTS_BITS
    served = link.serves.group[link.pairs.serve] >> PORTS_BITS
    return len(distinct(link.pairs.ask[(asked != 0) & (served != 0) & (asked != served)]))
