# SPDX-License-Identifier: Apache-2.0
"""Stream files: a path in, its Stream, its bytes or its good packets out."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iostrata.foreign import shown
from iostrata.trace.files import open_regular, read_begin
from iostrata.trace.frames import SUFFIX, Packets, contents, is_framed
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
    found = _mapped(path)
    stream.origin = Origin(str(path), found.status, grows)
    if is_framed(path.name):
        # What was made of it is nobody else's to change.
        stream.check()
        stream.origin = None
    if len(found.data):
        stream.mapped = found.data
    walk = Walk(stream, found.data, uuid, expected=expected, broken=found.broken)
    walk.run(found.missing_bytes)
    stream.check()
    return stream


def stream_data(path: Path) -> Data:
    """A stream file's packets up to its first hole, of which none is left by a recorder: a terabyte
    of nothing is a few bytes in an archive. OSError if it cannot be read."""
    return _mapped(path).data


@dataclass(frozen=True)
class Mapped:
    """``missing_bytes``: what the file has behind its first hole. ``broken``: places in the data
    that stand for what could not be made of the file, and why."""

    data: Data
    status: os.stat_result
    missing_bytes: int
    broken: Mapping[int, str] = field(default_factory=dict)


def _mapped(path: Path) -> Mapped:
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        size = status.st_size
        length = min(size, os.lseek(file.fileno(), 0, os.SEEK_HOLE)) if size else 0
        data = _bytes_of(file.fileno(), length)
    if not is_framed(path.name):
        return Mapped(data, status, size - length)
    packets = Packets(path)
    try:
        packets.take(data)
        made = _bytes_of(packets.fd, packets.size)
    finally:
        packets.close()
    return Mapped(made, status, size - length, packets.broken)


def _bytes_of(fd: int, length: int) -> Data:
    return mmap.mmap(fd, length, access=mmap.ACCESS_READ) if length else b""


def read_once(paths: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Of a stream that is there both ways, the file without frames; a line for the other one."""
    names = {path.name for path in paths}
    twice = [
        path for path in paths if is_framed(path.name) and path.name.removesuffix(SUFFIX) in names
    ]
    told = [f"{shown(path.name)}: not read, as {path.stem} is there, too" for path in twice]
    return [path for path in paths if path not in twice], told


def good_packets(data: Data, uuid: bytes) -> Iterator[Packet]:
    """The packets of a stream file that are whole, in file order."""
    walk = Walk(Stream("", UNKNOWN_CPU, data), data, uuid)
    return (packet for packet in walk.walk() if packet)


def first_time(path: Path, uuid: bytes) -> int:
    """When a stream file's first packet begins, as far as its head can be read; else never."""
    head = _first_content(path) if is_framed(path.name) else read_begin(path, HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return UNTIL_END
    magic, found, _, begin_ns, *_ = HEAD.unpack_from(head)
    return begin_ns if magic == MAGIC and found == uuid else UNTIL_END


def stream_file(path: Path) -> Data:
    """A stream file as it is. OSError if it cannot be read."""
    with open_regular(path) as file:
        return _bytes_of(file.fileno(), os.fstat(file.fileno()).st_size)


def _first_content(path: Path) -> bytes:
    _, content = next(contents(stream_file(path)), (0, b""))
    return b"" if isinstance(content, str) else content
