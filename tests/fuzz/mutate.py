# SPDX-License-Identifier: Apache-2.0
"""A recording's files in, the same with something wrong in them out.

It knows the format: what it changes is a field of an event or of a packet's head, a number in
the metadata, a cell of a fact, a value in recording.json; checksums are right again behind it.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from iostrata.trace.layout import DTYPES, EVENT_BYTES, POINTS
from iostrata.trace.packet import CRC_AT, HEAD, HEAD_BYTES, checksum

VALUES: Final[tuple[Any, ...]] = (
    None,
    0,
    -1,
    1 << 70,
    1.5,
    "",
    "..",
    "\u001b[31m",
    "guest",
    [],
    {},
    True,
)
Files = dict[str, bytes]
NUMBERED: Final = {name: struct.pack("<H", number) for name, number in POINTS.items()}
NAMES: Final = {number: name for name, number in POINTS.items()}
HEAD_FIELDS: Final = len(HEAD.unpack(bytes(HEAD.size)))
PACKET_BITS, UUID_FIELD, CRC_FIELD = 6, 1, 10
NUMBERS: Final = (0, 1, 2, 3, 255, 256, 65535, 65536, 10**6, 10**9, 1 << 31, 1 << 32, 1 << 62)
TEXTS: Final = (
    b"", b" ", b"\0", b"\t\t\t", b"-1", b"0", b"18446744073709551616", b"1e308", b"nan",
    b"\xff\xfe", b"\x1b[2J", "\u0663".encode(), b"../..", b"a" * 300, b"9" * 400,
    b"{" * 200, b"/* */", b"null",
)  # fmt: skip


def files_of(recording: Path) -> Files:
    """By their paths within the recording."""
    found = sorted(path for path in recording.rglob("*") if path.is_file())
    return {str(path.relative_to(recording)): path.read_bytes() for path in found}


def write(files: Mapping[str, bytes], recording: Path) -> Path:
    for name, data in files.items():
        path = recording / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return recording


def mutated(files: Mapping[str, bytes], random: Random) -> Files:
    """One to four things changed."""
    found = dict(files)
    for _ in range(random.choice((1, 1, 2, 4))):
        name = random.choice(sorted(found))
        found[name] = _verb(name, random)(found[name], random)
        if random.random() < 0.01:
            del found[name]
    return found


def changed(name: str, data: bytes, random: Random) -> bytes:
    """One to four things changed in a file of that name."""
    for _ in range(random.choice((1, 1, 2, 4))):
        data = _verb(name, random)(data, random)
    return data


def _verb(name: str, random: Random) -> Callable[[bytes, Random], bytes]:
    if random.random() < 0.1:
        return random.choice((_flip, _cut, _doubled))
    last = name.rpartition("/")[2]
    if last == "recording.json":
        return _json
    if last == "metadata":
        return _metadata
    if "/facts/" in name:
        return _cells
    return random.choice((_event, _event, _event, _event, _packet, _cut, _shifted))


# -- bytes -----------------------------------------------------------------------


def _flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 8) if data else 0):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _doubled(data: bytes, random: Random) -> bytes:
    begin, end = sorted(random.randint(0, len(data)) for _ in range(2))
    return data[:end] + data[begin:end] + data[end:]


# -- streams ---------------------------------------------------------------------


def packets_of(data: bytes) -> list[tuple[int, int]]:
    """Begin and size of each, as far as they are whole."""
    found, at = [], 0
    while at + HEAD_BYTES <= len(data):
        size = HEAD.unpack_from(data, at)[PACKET_BITS] // 8
        if size < HEAD_BYTES or at + size > len(data):
            break
        found.append((at, size))
        at += size
    return found


def _mended(data: bytearray, at: int, size: int) -> bytes:
    if HEAD_BYTES <= size <= len(data) - at:
        struct.pack_into("<I", data, at + CRC_AT, checksum(bytes(data), at, size))
    return bytes(data)


def slept(data: bytes, random: Random) -> bytes:
    """What is told of some sleeps of one packet."""
    return _event(data, random, "sched_resume")


def _event(data: bytes, random: Random, point: str = "") -> bytes:
    """A field of some events of one packet. ``point``: that they are of; empty: of any."""
    packets = [(at, size) for at, size in packets_of(data) if size > HEAD_BYTES]
    if not packets:
        return _flip(data, random)
    at, size = random.choice(packets)
    changed = bytearray(data)
    # A packet that was changed before may end within an event.
    slots: Sequence[int] = range(at + HEAD_BYTES, at + size - EVENT_BYTES + 1, EVENT_BYTES)
    if point:
        slots = [slot for slot in slots if data[slot + 8 : slot + 10] == NUMBERED[point]]
    for slot in random.sample(slots, min(len(slots), random.choice((1, 1, 3, 50)))):
        (number,) = struct.unpack_from("<H", data, slot + 8)
        dtype = DTYPES.get(NAMES.get(number, "syscall"), DTYPES["syscall"])
        assert dtype.names
        event = np.frombuffer(changed, dtype, 1, slot)
        field = random.choice(dtype.names)
        event[field] = _value(event[field][0], dtype[field], random)
    return _mended(changed, at, size)


def _value(old: Any, dtype: np.dtype[Any], random: Random) -> Any:
    """Another one of its type: near it, far from it, at an edge."""
    if dtype.kind == "S":
        return random.choice(TEXTS)[: dtype.itemsize]
    info = np.iinfo(dtype)
    near = int(old) + random.choice((-1, 1, -1000, 1000, -(10**9), 10**9, 1 << 40, -(1 << 40)))
    far = random.choice((info.min, info.max, *NUMBERS, random.randint(info.min, info.max)))
    return min(max(random.choice((near, far)), info.min), info.max)


def _shifted(data: bytes, random: Random) -> bytes:
    """A packet whose events are all later, or earlier; its head goes with them or does not."""
    packets = [(at, size) for at, size in packets_of(data) if size > HEAD_BYTES]
    if not packets:
        return data
    at, size = random.choice(packets)
    changed, by = bytearray(data), random.choice((1, -1)) * random.choice((1000, 10**9, 1 << 62))
    for slot in range(at + HEAD_BYTES, at + size - EVENT_BYTES + 1, EVENT_BYTES):
        (time_ns,) = struct.unpack_from("<Q", data, slot)
        struct.pack_into("<Q", changed, slot, (time_ns + by) % (1 << 64))
    if random.random() < 0.5:
        head = list(HEAD.unpack_from(data, at))
        head[3:5] = [(edge + by) % (1 << 64) for edge in head[3:5]]
        HEAD.pack_into(changed, at, *head)
    return _mended(changed, at, size)


def _packet(data: bytes, random: Random) -> bytes:
    """A field of a packet's head; or a packet once more, or away."""
    packets = packets_of(data)
    if not packets:
        return data
    at, size = random.choice(packets)
    match random.randrange(4):
        case 0:
            return data[:at] + data[at + size :]
        case 1:
            return data + data[at : at + size]
    head = list(HEAD.unpack_from(data, at))
    field = random.choice([each for each in range(HEAD_FIELDS) if each not in (1, CRC_FIELD)])
    bits = 32 if field in (0, 2, 9) else 64
    near = head[field] + random.choice((-1, 1, 512, -512, 10**9))
    head[field] = random.choice((near, random.choice(NUMBERS), (1 << bits) - 1)) % (1 << bits)
    changed = bytearray(data)
    HEAD.pack_into(changed, at, *head)
    return _mended(changed, at, head[PACKET_BITS] // 8)


# -- texts -----------------------------------------------------------------------


def _metadata(data: bytes, random: Random) -> bytes:
    text = re.sub(rb"\n/\* crc32 [0-9a-f]{8} \*/\s*$", b"", data)
    changed = random.choice((_number, _line, _words))(text, random)
    if random.random() < 0.1:
        return changed
    return changed + b"\n/* crc32 %08x */\n" % zlib.crc32(changed)


def _number(data: bytes, random: Random) -> bytes:
    found = list(re.finditer(rb"\d+", data))
    if not found:
        return _flip(data, random)
    one = random.choice(found)
    other = random.choice([b"%d" % random.choice(NUMBERS), *TEXTS])
    return data[: one.start()] + other + data[one.end() :]


def _words(data: bytes, random: Random) -> bytes:
    """One word put for another, or for something strange."""
    found = list(re.finditer(rb"[A-Za-z_:=;{}\"]+", data))
    if not found:
        return _flip(data, random)
    one = random.choice(found)
    other = random.choice([random.choice(found)[0], *TEXTS])
    return data[: one.start()] + other + data[one.end() :]


def _line(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    one = random.randrange(len(lines))
    match random.randrange(3):
        case 0:
            lines.pop(one)
        case 1:
            lines[one:one] = [random.choice(lines)] * random.choice((1, 1, 100))
        case _:
            lines[one] = random.choice(TEXTS)
    return b"\n".join(lines)


def _cells(data: bytes, random: Random) -> bytes:
    """One cell of a fact, or a line."""
    if random.random() < 0.3:
        return _line(data, random)
    lines = [re.split(rb"([\t ])", line) for line in data.split(b"\n")]
    cells = random.choice(lines)
    cells[random.randrange(len(cells))] = random.choice((b"%d" % random.choice(NUMBERS), *TEXTS))
    return b"\n".join(b"".join(cells) for cells in lines)


def _json(data: bytes, random: Random) -> bytes:
    """A value anywhere in it, or its text."""
    if random.random() < 0.3:
        return random.choice((_flip, _cut, _words))(data, random)
    try:
        document = json.loads(data)
    except ValueError:
        return _flip(data, random)
    places = list(_places(document))
    if not places:
        return b"{}"
    within, key = random.choice(places)
    within[key] = random.choice((*VALUES, [within[key]] * 9))
    return json.dumps(document).encode()


def _places(part: Any) -> list[tuple[Any, Any]]:
    keys = part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
    found = [(part, key) for key in keys]
    return found + [place for key in keys for place in _places(part[key])]
