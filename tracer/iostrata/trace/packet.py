# SPDX-License-Identifier: Apache-2.0
"""Packets: their head's form, and their checksum; two slots of a stream file, then its events."""

from __future__ import annotations

import mmap
import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata import native
from iostrata.trace.layout import EVENT_BYTES

MAGIC = 0xC1FC1FC1
HEAD = struct.Struct("<I16sIQQQQQQII")
HEAD_BYTES = 128
HEAD_SLOTS = HEAD_BYTES // EVENT_BYTES
HEAD_BITS = HEAD_BYTES * 8
EVENT_BITS = EVENT_BYTES * 8
CRC_AT = 76
MANY_BYTES: Final = 4096
"""Fewer are not worth the way to C."""

Data = mmap.mmap | bytes


@dataclass(frozen=True)
class Packet:
    number: int
    first_slot: int
    count: int
    begin_ns: int
    end_ns: int
    sequence: int
    discarded: int
    cpu: int
    end: int


def checksum(data: Data, at: int, size: int) -> int:
    """CRC-32 of a packet whose checksum field is taken as zero."""
    head = zlib.crc32(data[at : at + CRC_AT] + bytes(4))
    with memoryview(data) as view, view[at + CRC_AT + 4 : at + size] as rest:
        if native.LIBRARY is not None and len(rest) >= MANY_BYTES:
            return native.crc32(np.frombuffer(rest, np.uint8), head)
        return zlib.crc32(rest, head)
