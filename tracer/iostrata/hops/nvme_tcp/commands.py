# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: what a machine tells of commands in, by what both machines know them out.

A connection is known by its host's id, and by its addresses and ports. Where an initiator gives
none, Linux before 6.5 draws one at random each time that it connects, and has it for all of its
controllers then ("nvme-fabrics: prevent overriding of existing host"): of two paths, the first
one's target was told another one than the initiator knows now.
"""

from __future__ import annotations

from typing import Final

from iostrata.columns import Ints
from iostrata.hops.connections import number_of
from iostrata.stitch import Columns

NUMBERS: Final = ("controller", "queue", "command")
ENDS: Final = ("connection", "ends", "host")
OPCODE_FLUSH: Final = 0
OPCODE_READ: Final = 2


def keys_of(commands: Columns) -> Ints:
    """Three numbers of 16 bits as one."""
    key = commands[NUMBERS[0]]
    for name in NUMBERS[1:]:
        key = key << 16 | commands[name]
    return key


def groups_of(commands: Columns) -> Ints:
    return number_of(*(commands[name] for name in ENDS))
