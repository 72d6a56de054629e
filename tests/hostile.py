# SPDX-License-Identifier: Apache-2.0
"""A recording in, the same out with what a terminal obeys in every text that others chose.

Whatever is a text there is taken: a field of any event, a word of the environment, a cell of any
fact. What comes to be a text later, is, too.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from iostrata.trace.layout import DTYPES, EVENT_BYTES, POINTS
from iostrata.trace.packet import CRC_AT, HEAD_BYTES, checksum
from tests.fuzz.mutate import Files, files_of, packets_of, write

OBEYED: Final = "\x1b]\x9b\u202e\udcff"
"""By a terminal: a command, one of a single letter, the direction of writing, no letter at all."""
MARKED: Final = OBEYED.encode(errors="surrogateescape")
KINDS: Final = {number: DTYPES[name] for name, number in POINTS.items() if name in DTYPES}
# Cells that are numbers, or words by which one line is tied to another one.
TIES: Final = re.compile(rb"[-\d.,:]+|dev|rw|ro|0x[0-9a-f]+")


def hostile(files: Files, file_systems: bool = False) -> Files:
    """``file_systems``: what they are, too, so that nothing of theirs is known any more."""
    return {name: _file(name, data, file_systems) for name, data in files.items()}


def _file(name: str, data: bytes, file_systems: bool) -> bytes:
    last = name.rpartition("/")[2]
    if last == "recording.json":
        return json.dumps(_described(json.loads(data))).encode()
    if last == "metadata":
        return _metadata(data)
    if last == "mountinfo":
        return b"\n".join(_mount(line, file_systems) for line in data.split(b"\n"))
    if "/facts/" in name:
        return b"\n".join(_cells(data.split(b"\n"), last))
    return _stream(data)


def _described(told: dict[str, Any]) -> dict[str, Any]:
    machines = [
        {**machine, "name": OBEYED + machine["name"], "note": OBEYED, "facts": {}}
        for machine in told["machines"]
    ]
    absent = [{"name": f"{OBEYED}x", "role": OBEYED, "directory": OBEYED, "note": OBEYED}]
    return {**told, "machines": machines, "absent": absent, "created": OBEYED, "command": [OBEYED]}


def _metadata(data: bytes) -> bytes:
    text = data.partition(b"\n/* crc32")[0]
    begin = text.index(b"env {")
    end = text.index(b"}", begin)
    env = re.sub(rb'(?m)= "', b'= "' + MARKED, text[begin:end])
    text = text[:begin] + env + text[end:]
    # An event that nobody knows.
    text = text.replace(b'name = "cost"', b'name = "%scost"' % MARKED)
    return text + b"\n/* crc32 %08x */\n" % zlib.crc32(text)


def _mount(line: bytes, file_systems: bool) -> bytes:
    before, _, after = line.partition(b" - ")
    place, kind = before.split(b" "), after.split(b" ")
    if len(place) < 6 or len(kind) < 3:
        return line
    place[4] += MARKED
    kind[0] = kind[0] + MARKED if file_systems else kind[0]
    # The devices' names are those of the block devices.
    device = kind[1].startswith(b"/dev/")
    kind[1] = kind[1].replace(b"/dev/", b"/dev/" + MARKED) if device else kind[1] + MARKED
    kind[2] += b"," + MARKED
    return b" ".join(place) + b" - " + b" ".join(kind)


def _cells(lines: list[bytes], fact: str) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        head = not number and line[:1].isalpha() and fact not in ("cards", "vmms", "throttled")
        yield line if head else b"\t".join(map(_cell, line.split(b"\t")))


def _cell(cell: bytes) -> bytes:
    words = cell.split(b" ")
    return b" ".join(MARKED + one if one and not TIES.fullmatch(one) else one for one in words)


def _stream(data: bytes) -> bytes:
    made = bytearray(data)
    for at, size in packets_of(data):
        for slot in range(at + HEAD_BYTES, at + size - EVENT_BYTES + 1, EVENT_BYTES):
            (number,) = struct.unpack_from("<H", data, slot + 8)
            if number in KINDS:
                _mark(made, KINDS[number], slot)
        struct.pack_into("<I", made, at + CRC_AT, checksum(bytes(made), at, size))
    return bytes(made)


def _mark(data: bytearray, kind: np.dtype[Any], slot: int) -> None:
    event = np.frombuffer(data, kind, 1, slot)
    for name in kind.names or ():
        if kind[name].kind == "S" and event[name][0]:
            event[name] = (MARKED + event[name][0])[: kind[name].itemsize - 1]


def write_hostile(source: Path, target: Path, file_systems: bool = False) -> Path:
    return write(hostile(files_of(source), file_systems), target)
