# SPDX-License-Identifier: Apache-2.0
"""Hops: a connection's ports and what is told of its addresses in, one number out."""

from __future__ import annotations

from typing import Final

from iostrata.columns import Ints

PORTS_BITS: Final = 32


def number_of(ports: Ints, ends: Ints) -> Ints:
    """``ports``: the client's << 16 | the server's; ``ends``: 0, where nothing is told."""
    return ends << PORTS_BITS | ports


def whole_number(number: Ints) -> Ints:
    return number


def ports_of(number: Ints) -> Ints:
    return number & (1 << PORTS_BITS) - 1
