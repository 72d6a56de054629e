# SPDX-License-Identifier: Apache-2.0
"""Hops: what is told of the way between two machines, where their packets are known."""

from __future__ import annotations

from dataclasses import dataclass

from iostrata.clock import Alignment
from iostrata.columns import Ints


@dataclass(frozen=True, eq=False)
class Streams:
    """Of each ask, where in its connection's streams its call and its reply end (32 bits).

    -1: that is not known.
    """

    call_end: Ints
    reply_end: Ints


@dataclass(frozen=True)
class Carrier:
    """A machine between two others that carries what they say, and how its clock relates to the
    upper one's."""

    machine: str
    clock: Alignment


@dataclass(frozen=True, eq=False)
class Ways:
    """The points that each ask's call and its reply passed on their way, as packets.

    ``there_ns``, ``back_ns``: one row a point, one column an ask, in the upper's clock; -1: it was
    not seen at all of them. ``there``, ``back``: the ranks of what lies before, between and behind
    these, one more than points; "": what no rank of its own is known of. ``carriers``: in order,
    from the upper machine on. ``hosted``: the first of them is the host of the upper one.
    """

    there_ns: Ints
    there: tuple[str, ...]
    back_ns: Ints
    back: tuple[str, ...]
    carriers: tuple[Carrier, ...]
    hosted: bool
