# SPDX-License-Identifier: Apache-2.0
"""A large recording in, its Summary out: made once for each grouping, and kept beside it.

What people look at twice is there at once: no column is read for it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from iostrata.analysis import shelf
from iostrata.analysis.cache import analysed
from iostrata.analysis.so_far import SoFar, nobody
from iostrata.attribute import summarise
from iostrata.model import Op, Summary
from iostrata.recording import SUMMARIES, Recording

MAGIC: Final = b"iostrata summary 1\n"
HEAD: Final = struct.Struct("<19sI")
"""``MAGIC``, the CRC-32 of all that follows."""
MOST_BYTES: Final = 8 << 20
"""More is not kept: by file there may be a table for each of many thousands."""


class Kept(msgspec.Struct, frozen=True):
    """``summaries``: by what was asked for to group them."""

    key: bytes
    summaries: dict[str, Summary]


def summed_up(
    recording: Recording,
    by: str = "",
    op: Op = Op.SYNC,
    jobs: int = 1,
    cached: bool = True,
    heard: Callable[[SoFar], None] = nobody,
) -> Summary:
    """What ``summarise`` says of all that ``analysed`` finds, which see; or what it said before."""
    key = shelf.key_of(recording, op) if cached else b""
    known = _taken(recording.path, op, key) if key else {}
    if by in known:
        return known[by]
    summary = summarise(analysed(recording, op, jobs, cached, heard), by, jobs)
    if key and key == shelf.key_of(recording, op):
        for kept in ({**known, by: summary}, {by: summary}):
            text = msgspec.msgpack.encode(Kept(key, kept))
            if len(text) <= MOST_BYTES:
                shelf.put(recording.path, SUMMARIES.format(op), partial(_write, text))
                break
    return summary


def _taken(directory: Path, op: Op, key: bytes) -> dict[str, Summary]:
    """What is kept there, if it is of these files, and whole."""
    with (
        suppress(OSError, struct.error, msgspec.MsgspecError),
        shelf.taken(directory, SUMMARIES.format(op)) as (file, _),
    ):
        magic, crc = HEAD.unpack(file.read(HEAD.size))
        text = file.read(MOST_BYTES + 1)
        if magic == MAGIC and crc == zlib.crc32(text):
            kept = msgspec.msgpack.decode(text, type=Kept)
            return kept.summaries if kept.key == key else {}
    return {}


def _write(text: bytes, file: BinaryIO) -> None:
    file.write(HEAD.pack(MAGIC, zlib.crc32(text)))
    file.write(text)
