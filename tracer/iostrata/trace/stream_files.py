# SPDX-License-Identifier: Apache-2.0
"""Stream files: a path in, its Stream, its bytes or its good packets out."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from iostrata.trace.files import open_regular, read_begin
from iostrata.trace.packet import HEAD, HEAD_BYTES, MAGIC, Data, Packet
from iostrata.trace.stream import UNKNOWN_CPU, UNTIL_END, Origin, Stream, stream_cpu
from iostrata.trace.times import Expected
from iostrata.trace.walk import ANYTHING, Walk


def read_stream(
    path: Path,
    uuid: bytes,
    expected: Expected = ANYTHING,
    kept_bytes: int = 0,
    grows: bool = True,
) -> Stream:
    """``grows``: it may be recorded to. OSError if the file cannot be read, RecordingError if it
    was changed meanwhile; what is wrong inside it becomes damage."""
    cpu = stream_cpu(path.name)
    stream = Stream(path.name, UNKNOWN_CPU if cpu is None else cpu, kept_bytes=kept_bytes)
    data, status = _mapped(path)
    stream.origin = Origin(str(path), status, grows)
    if len(data):
        stream.mapped = data
    Walk(stream, data, uuid, expected=expected).run(status.st_size - len(data))
    stream.check()
    return stream


def stream_data(path: Path) -> Data:
    """A stream file up to its first hole, of which none is left by a recorder: a terabyte of
    nothing is a few bytes in an archive. OSError if it cannot be read."""
    return _mapped(path)[0]


def _mapped(path: Path) -> tuple[Data, os.stat_result]:
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        size = status.st_size
        length = min(size, os.lseek(file.fileno(), 0, os.SEEK_HOLE)) if size else 0
        data = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) if length else b""
        return data, status


def good_packets(data: Data, uuid: bytes) -> Iterator[Packet]:
    """The packets of a stream file that are whole, in file order."""
    walk = Walk(Stream("", UNKNOWN_CPU, data), data, uuid)
    return (packet for packet in walk.walk() if packet)


def first_time(path: Path, uuid: bytes) -> int:
    """When a stream file's first packet begins, as far as its head can be read; else never."""
    head = read_begin(path, HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return UNTIL_END
    magic, found, _, begin_ns, *_ = HEAD.unpack_from(head)
    return begin_ns if magic == MAGIC and found == uuid else UNTIL_END
