# SPDX-License-Identifier: Apache-2.0
"""A large recording in, its Breakdown out: made once, kept beside it, and taken from there.

What is read are numbers and a schema's values, never code, and whatever others rest on is checked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from iostrata.model import Behind, Breakdown, Layer, Op, Quality, Who, Writes
from iostrata.recording import ANALYSIS, Recording
from iostrata.shelf import files

if TYPE_CHECKING:
    from iostrata.analysis import Prepared, SoFar

MAGIC: Final = b"iostrata analysis 1\n"
HEAD: Final = struct.Struct("<20sIQ")
"""``MAGIC``, the CRC-32 of all that follows, how long the ``Head`` is."""
MOST_HEAD_BYTES: Final = 64 << 20
MOST_BYTES: Final = 1 << 30
"""More is not kept."""
NARROW: Final = np.dtype("<i4")
WIDE: Final = np.dtype("<i8")

Columns = dict[str, NDArray[Any]]


class Column(msgspec.Struct, frozen=True):
    """``narrow``: its numbers are kept in 32 bits."""

    name: str
    length: int
    narrow: bool


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
        files.taken(directory, ANALYSIS.format(op)) as (file, size),
    ):
        return _read(file, size, op, key)
    return None


def _read(file: BinaryIO, size: int, op: Op, key: bytes) -> Breakdown:
    """ValueError: it is none, or of something else."""
    magic, told_crc, head_bytes = HEAD.unpack(file.read(HEAD.size).ljust(HEAD.size))
    _check(magic == MAGIC and head_bytes <= min(size, MOST_HEAD_BYTES))
    text = file.read(head_bytes)
    head = msgspec.msgpack.decode(text, type=Head)
    _check(head.key == key and head.op is op)
    lengths = [(column.length, NARROW if column.narrow else WIDE) for column in head.columns]
    _check(all(length >= 0 for length, _ in lengths))
    told = sum(length * kind.itemsize for length, kind in lengths)
    _check(HEAD.size + head_bytes + told == size)
    crc, columns = zlib.crc32(text), Columns()
    for column, (length, kind) in zip(head.columns, lengths, strict=True):
        values = file.read(length * kind.itemsize)
        crc = zlib.crc32(values, crc)
        columns[column.name] = np.frombuffer(values, kind)
    _check(crc == told_crc)
    return _breakdown(head, columns)


def _write(key: bytes, breakdown: Breakdown, file: BinaryIO) -> None:
    """OSError: it is too long."""
    columns = {name: _narrowed(column) for name, column in _columns(breakdown).items()}
    if sum(column.nbytes for column in columns.values()) > MOST_BYTES:
        raise OSError
    head = msgspec.msgpack.encode(
        Head(
            key,
            tuple(
                Column(name, len(column), column.dtype == NARROW)
                for name, column in columns.items()
            ),
            breakdown.layers,
            dict(breakdown.writes.names),
            dict(breakdown.left_out),
            breakdown.quality,
            breakdown.behind.names,
            breakdown.op,
        )
    )
    crc = zlib.crc32(head)
    for column in columns.values():
        crc = zlib.crc32(column.data, crc)
    file.write(HEAD.pack(MAGIC, crc, len(head)))
    file.write(head)
    for column in columns.values():
        file.write(column.data)


def _narrowed(column: NDArray[Any]) -> NDArray[Any]:
    """In 32 bits, where they are enough: mostly, of times that something took."""
    narrow = np.iinfo(NARROW)
    least, most = int(column.min(initial=0)), int(column.max(initial=0))
    kind = NARROW if narrow.min <= least and most <= narrow.max else WIDE
    return column.ravel().astype(kind, casting="same_kind")


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
        parts[part][name] = column.astype(np.int32 if narrow else np.int64)
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
    time_ns, residual = parts[""]["time_ns"], parts[""]["residual_ns"]
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


def _within(values: NDArray[Any], least: int, end: int) -> None:
    _check(least <= int(values.min(initial=least)) and int(values.max(initial=least)) < max(end, 1))


def _check(fits: bool) -> None:
    if not fits:
        raise ValueError
