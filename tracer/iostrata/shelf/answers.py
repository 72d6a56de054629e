# SPDX-License-Identifier: Apache-2.0
"""A question about a large recording in, its answer out: found once, and kept beside it.

What people look at twice is there at once: neither an event nor a column is read for it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from iostrata.model import Op
from iostrata.recording import SUMMARIES, Recording
from iostrata.shelf import files

MAGIC: Final = b"iostrata answers 1\n"
HEAD: Final = struct.Struct("<19sI")
"""``MAGIC``, the CRC-32 of all that follows."""
MOST_BYTES: Final = 8 << 20
"""Of more, the oldest are not kept: by file there may be a table for each of many thousands."""

T = TypeVar("T")
Answers = dict[str, msgspec.Raw]


class Kept(msgspec.Struct, frozen=True):
    """``answers``: by their questions, the oldest first."""

    key: bytes
    answers: Answers


def answered(
    recording: Recording,
    op: Op,
    question: str,
    kind: type[T],
    ask: Callable[[], T],
    cached: bool = True,
) -> T:
    """What ``ask`` says of a recording, or said before. ``cached``: that may be taken, and kept.

    ``question``: whatever the answer rests on but the recording; ``repr`` tells it of any bytes.
    ``kind``: of the answer, which msgspec writes and reads.
    """
    key = files.key_of(recording, op) if cached else b""
    said = _said(recording.path, op, key, question, kind)
    if said is not None:
        return said
    answer = ask()
    if key and key == files.key_of(recording, op):
        # Names that are no text are not kept.
        with suppress(UnicodeEncodeError):
            _keep(recording.path, op, key, question, msgspec.Raw(msgspec.msgpack.encode(answer)))
    return answer


def known(recording: Recording, op: Op, question: str, kind: type[T]) -> T | None:
    """What was said before, if it is kept."""
    return _said(recording.path, op, files.key_of(recording, op), question, kind)


def _said(directory: Path, op: Op, key: bytes, question: str, kind: type[T]) -> T | None:
    if key and (said := _taken(directory, op, key).get(question)):
        with suppress(msgspec.MsgspecError):
            return msgspec.msgpack.decode(said, type=kind)
    return None


def _keep(directory: Path, op: Op, key: bytes, question: str, said: msgspec.Raw) -> None:
    """With those that are there: others may have been kept meanwhile."""
    answers = _taken(directory, op, key)
    answers.pop(question, None)
    answers[question] = said
    while answers:
        text = msgspec.msgpack.encode(Kept(key, answers))
        if len(text) <= MOST_BYTES:
            files.put(directory, SUMMARIES.format(op), partial(_write, text))
            return
        del answers[next(iter(answers))]


def _taken(directory: Path, op: Op, key: bytes) -> Answers:
    """What is kept there, if it is of these files, and whole."""
    with (
        suppress(OSError, struct.error, msgspec.MsgspecError),
        files.taken(directory, SUMMARIES.format(op)) as file,
    ):
        magic, crc = HEAD.unpack(file.read(HEAD.size))
        text = file.read(MOST_BYTES + 1)
        if magic == MAGIC and crc == zlib.crc32(text):
            kept = msgspec.msgpack.decode(text, type=Kept)
            return kept.answers if kept.key == key else {}
    return {}


def _write(text: bytes, file: BinaryIO) -> None:
    file.write(HEAD.pack(MAGIC, zlib.crc32(text)))
    file.write(text)
