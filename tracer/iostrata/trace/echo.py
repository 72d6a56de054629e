# SPDX-License-Identifier: Apache-2.0
"""The fact ``echoes``: one line an echo to a server of a mount, sent while recording."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from iostrata.trace.cells import integer

ECHOES: Final = "echoes"
HEAD: Final = "address\tsent_ns\tround_trip_ns"
NONE: Final = "-"


@dataclass(frozen=True)
class Echo:
    """``sent_ns``: CLOCK_MONOTONIC. ``round_trip_ns`` None: no answer came."""

    address: str
    sent_ns: int
    round_trip_ns: int | None


def echo_lines(echoes: Iterable[Echo]) -> str:
    return "".join(f"{line}\n" for line in (HEAD, *map(_line, echoes)))


def _line(echo: Echo) -> str:
    trip = NONE if echo.round_trip_ns is None else echo.round_trip_ns
    return f"{echo.address}\t{echo.sent_ns}\t{trip}"


def parse_echo(line: str) -> Echo:
    """ValueError: it is none."""
    address, sent, trip = line.split("\t")
    return Echo(address, integer(sent), None if trip == NONE else integer(trip))
