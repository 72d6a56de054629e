# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: what a machine tells of commands in, by what both machines know them out."""

from __future__ import annotations

from typing import Final

from iostrata.columns import Ints
from iostrata.hops.connections import number_of
from iostrata.stitch import Columns

NUMBERS: Final = ("host", "controller", "queue", "command")
ENDS: Final = ("connection", "ends")
OPCODE_FLUSH: Final = 0
OPCODE_READ: Final = 2


def keys_of(commands: Columns) -> Ints:
    """Four numbers of 16 bits as one."""
    key = commands[NUMBERS[0]]
    for name in NUMBERS[1:]:
        key = key << 16 | commands[name]
    return key


def connections_of(commands: Columns) -> Ints:
    return number_of(*(commands[name] for name in ENDS))
