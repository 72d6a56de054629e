# SPDX-License-Identifier: Apache-2.0
"""A large recording in, its Breakdown out: made once, kept beside it, and taken from there.

What is read are numbers and a schema's values, never code, and whatever others rest on is checked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from iostrata.columns import constant
from iostrata.model import Behind, Breakdown, Layer, Op, Quality, Who, Writes
from iostrata.recording import ANALYSIS, Recording
from iostrata.shelf import files

if TYPE_CHECKING:
    from iostrata.analysis import Prepared, SoFar

MAGIC: Final = b"iostrata analysis 2\n"
HEAD: Final = struct.Struct("<20sIQ")
"""``MAGIC``, the CRC-32 of all that follows, how long the ``Head`` is."""
ALIGNMENT: Final = 8
"""Of each column's first byte."""
MOST_HEAD_BYTES: Final = 64 << 20
MOST_BYTES: Final = 1 << 30
"""More is not kept."""
NARROW: Final = np.dtype("<i4")
WIDE: Final = np.dtype("<i8")

Columns = dict[str, NDArray[Any]]


class Column(msgspec.Struct, frozen=True):
    """``narrow``: its numbers are kept in 32 bits. ``single``: all are the one that is kept."""

    name: str
    length: int
    narrow: bool
    single: bool

    @property
    def kind(self) -> np.dtype[Any]:
        return NARROW if self.narrow else WIDE

    @property
    def kept(self) -> int:
        """How many numbers of it are."""
        return 1 if self.single else self.length

    @property
    def room(self) -> int:
        """Bytes until the next column."""
        return _aligned(self.kept * self.kind.itemsize)


class Head(msgspec.Struct, frozen=True):
    """All of a Breakdown but its columns, which follow in this order."""

    key: bytes
    columns: tuple[Column, ...]
    layers: tuple[Layer, ...]
    names: dict[str, tuple[str, ...]]
    left_out: dict[str, int]
    quality: Quality
    who: tuple[Who, ...]
    op: Op


def analysed(
    recording: Recording,
    op: Op = Op.SYNC,
    jobs: int = 1,
    cached: bool = True,
    heard: Callable[[SoFar], None] | None = None,
    found: Prepared | None = None,
) -> Breakdown:
    """As ``analyse``, or what that came to before. ``cached``: that may be taken, and kept.

    ``found``: what ``prepare`` has found of it, where that is known.
    """
    key = files.key_of(recording, op) if cached else b""
    if key and (known := _taken(recording.path, op, key)):
        return known
    # Which is not loaded for what is known.
    from iostrata.analysis import breakdown_of, nobody, prepare  # noqa: PLC0415

    breakdown = breakdown_of(found or prepare(recording, op, jobs), jobs, heard or nobody)
    # What was written to meanwhile was perhaps read before.
    if key and key == files.key_of(recording, op):
        files.put(recording.path, ANALYSIS.format(op), partial(_write, key, breakdown))
    return breakdown


def _taken(directory: Path, op: Op, key: bytes) -> Breakdown | None:
    """What is kept there, if it is of these files, and whole."""
    with (
        suppress(OSError, ValueError, msgspec.MsgspecError),
        files.taken(directory, ANALYSIS.format(op)) as file,
    ):
        return _read(file, op, key)
    return None


def _read(file: BinaryIO, op: Op, key: bytes) -> Breakdown:
    """ValueError: it is none, or of something else.

    Its columns stay where they are, as far as they need not be any wider.
    """
    mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    magic, told_crc, head_bytes = HEAD.unpack(mapped[: HEAD.size].ljust(HEAD.size))
    _check(magic == MAGIC and head_bytes <= min(len(mapped), MOST_HEAD_BYTES))
    head = msgspec.msgpack.decode(mapped[HEAD.size : HEAD.size + head_bytes], type=Head)
    _check(head.key == key and head.op is op)
    _check(all(0 <= column.length <= MOST_BYTES for column in head.columns))
    place = _aligned(HEAD.size + head_bytes)
    _check(place + sum(column.room for column in head.columns) == len(mapped))
    with memoryview(mapped) as whole, whole[HEAD.size :] as rest:
        _check(zlib.crc32(rest) == told_crc)
    columns = Columns()
    for column in head.columns:
        values = np.frombuffer(mapped, column.kind, column.kept, place)
        columns[column.name] = np.broadcast_to(values, column.length) if column.single else values
        place += column.room
    return _breakdown(head, columns)


def _write(key: bytes, breakdown: Breakdown, file: BinaryIO) -> None:
    """OSError: it is too long."""
    columns = {name: _told(name, column) for name, column in _columns(breakdown).items()}
    head = msgspec.msgpack.encode(
        Head(
            key,
            tuple(columns.values()),
            breakdown.layers,
            dict(breakdown.writes.names),
            dict(breakdown.left_out),
            breakdown.quality,
            breakdown.behind.names,
            breakdown.op,
        )
    )
    begin = _aligned(HEAD.size + len(head))
    if begin + sum(column.room for column in columns.values()) > MOST_BYTES:
        raise OSError
    file.seek(HEAD.size)
    crc = 0
    for part in chain([head.ljust(begin - HEAD.size, b"\0")], _kept(breakdown, columns)):
        crc = zlib.crc32(part, crc)
        file.write(part)
    file.seek(0)
    file.write(HEAD.pack(MAGIC, crc, len(head)))


def _told(name: str, column: NDArray[Any]) -> Column:
    """In 32 bits, where they are enough: mostly, of times that something took."""
    if not column.size:
        return Column(name, 0, narrow=True, single=False)
    room, least, most = np.iinfo(NARROW), int(column.min()), int(column.max())
    narrow = room.min <= least and most <= room.max
    return Column(name, column.size, narrow, single=least == most)


def _kept(breakdown: Breakdown, columns: Mapping[str, Column]) -> Iterator[bytes | memoryview]:
    """Column by column: all of them together would need as much room again."""
    for name, column in _columns(breakdown).items():
        told = columns[name]
        values = column.reshape(-1)[: told.kept].astype(told.kind, casting="same_kind")
        yield values.data
        yield bytes(told.room - values.nbytes)


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


def _columns(breakdown: Breakdown) -> Columns:
    """By the names of their places."""
    parts: dict[str, Mapping[str, Any]] = {
        "writes": vars(breakdown.writes),
        "codes": breakdown.writes.codes,
        "behind": vars(breakdown.behind),
        "": {"time_ns": breakdown.time_ns, "residual_ns": breakdown.residual_ns},
    }
    return {
        f"{part}.{name}": column
        for part, values in parts.items()
        for name, column in values.items()
        if isinstance(column, np.ndarray)
    }


def _breakdown(head: Head, columns: Columns) -> Breakdown:
    """ValueError: it does not fit together."""
    parts: dict[str, Columns] = {"writes": {}, "codes": {}, "behind": {}, "": {}}
    for place, column in columns.items():
        part, _, name = place.rpartition(".")
        _check(part in parts)
        narrow = part == "codes" or (part == "behind" and name != "time_ns")
        parts[part][name] = _as(np.int32 if narrow else np.int64, column)
    own, codes, behind = parts["writes"], parts["codes"], parts["behind"]
    told = {field.name for field in fields(Writes)} - {"codes", "names", "realtime_ns", "first_ns"}
    _check(own.keys() - {"realtime_ns"} == told and codes.keys() == head.names.keys())
    _check(behind.keys() == {field.name for field in fields(Behind)} - {"names"})
    _check(parts[""].keys() == {"time_ns", "residual_ns"})
    count = len(own["begin_ns"])
    _check(all(len(column) == count for column in (*own.values(), *codes.values())))
    _check(len({len(column) for column in behind.values()}) == 1)
    for name, code in codes.items():
        _within(code, 0, len(head.names[name]))
    _within(behind["write"], 0, count)
    _within(behind["layer"], -1, len(head.layers))
    _within(behind["who"], 0, len(head.who))
    time_ns, residual = map(np.ascontiguousarray, (parts[""]["time_ns"], parts[""]["residual_ns"]))
    _check(len(time_ns) == len(head.layers) * count and len(residual) == count)
    time_ns = time_ns.reshape(len(head.layers), count)
    _check(bool((time_ns.sum(axis=0) + residual == own["latency_ns"]).all()))
    return Breakdown(
        writes=Writes(**own, codes=codes, names=head.names),
        layers=head.layers,
        time_ns=time_ns,
        residual_ns=residual,
        left_out=head.left_out,
        quality=head.quality,
        behind=Behind(**behind, names=head.who),
        op=head.op,
    )


def _as(kind: type[np.integer[Any]], column: NDArray[Any]) -> NDArray[Any]:
    """What is one number, as ``compact`` has it, needs the room of one."""
    if constant(column):
        return np.broadcast_to(column[:1].astype(kind), len(column))
    return column.astype(kind, copy=False)


def _within(values: NDArray[Any], least: int, end: int) -> None:
    _check(least <= int(values.min(initial=least)) and int(values.max(initial=least)) < max(end, 1))


def _check(fits: bool) -> None:
    if not fits:
        raise ValueError
