# SPDX-License-Identifier: Apache-2.0
"""Redaction: a machine's trace in, the same without any name out: the same numbers, other bytes.

What is written is made anew of what is understood: bytes of which nobody knows what they hold
(unused parts of a slot, damaged packets, facts of another version) are zeros, or not there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from iostrata.foreign import shown
from iostrata.trace import fact_files as fact
from iostrata.trace.echo import ECHOES
from iostrata.trace.facts import device_numbers, unescape
from iostrata.trace.files import FACTS, METADATA
from iostrata.trace.frames import frame_of, is_framed
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.metadata import EVENT_HEADER, Metadata, render
from iostrata.trace.origin import TREE
from iostrata.trace.packet import CRC_AT, HEAD, HEAD_BYTES, HEAD_SLOTS, Data, Packet
from iostrata.trace.pseudonyms import Pseudonyms
from iostrata.trace.read import read_metadata
from iostrata.trace.stream import stream_cpu
from iostrata.trace.stream_files import good_packets, read_once, stream_data

Dtypes = Mapping[int, np.dtype[np.void]]
Rename = Callable[[bytes], bytes]

# Words of the environment that name nothing of anybody's.
KEPT_ENV: Final = frozenset(
    {"iostrata_version", "kernel_release", "kernel_version", "architecture", "clocksource",
     "packets"}
)  # fmt: skip
# Of what was chosen to record, the options: what numbers mean depends on them.
KEPT_OPTIONS: Final = frozenset(
    {"--pid", "--comm", "--cgroup", "--device", "--all", "--path", "--duty"}
)
# A BPF program's name, which is ours, and a file system's type, which is the kernel's.
KEPT_FIELDS: Final = frozenset({"program", "type"})
# Of events: whose addresses there are, as two numbers each; and numbers made of addresses, of a
# client's id and of a disk's.
ENDS: Final = ("local", "remote")
HASHES: Final = frozenset({"ends", "host", "image"})
# Facts that hold numbers and the kernel's own names only.
KEPT_FACTS: Final = (
    "affinity", "backed", "cpus", "exchange", "image_maps", "images", "overlays", "passthrough",
    "stacks", "topology", "tsc",
)  # fmt: skip
REDACTED: Final = "redacted"
ZEROS: Final = bytes(1 << 20)


def redact_trace(source: Path, target: Path, names: Pseudonyms) -> None:
    """Errors: RecordingError where its metadata cannot be read; OSError."""
    metadata = read_metadata(source)
    target.mkdir(parents=True)
    env = {key: _word(key, value, names) for key, value in metadata.env.items()}
    text = render(metadata.points, metadata.dtypes, env, metadata.clock, metadata.uuid)
    (target / METADATA).write_text(text)
    for path in read_once([path for path in sorted(source.iterdir()) if path.is_file()])[0]:
        if stream_cpu(path.name) is not None:
            made = _stream(stream_data(path), metadata, names)
            with (target / path.name).open("wb") as file:
                file.writelines(map(frame_of, made) if is_framed(path.name) else made)
    if (source / FACTS).is_dir():
        _redact_facts(source / FACTS, target / FACTS, names)


def _word(key: str, value: str | int, names: Pseudonyms) -> str | int:
    if not isinstance(value, str) or not value:
        return value
    if key in KEPT_ENV:
        return shown(value)
    if key == "hostname":
        return names.host(value)
    if key == "filter" and value == TREE:
        return value
    if key == "filter":
        words = (word if word in KEPT_OPTIONS else REDACTED for word in value.split())
        return " ".join(word for word, _ in groupby(words))
    return names.boot(value) if key == "boot_id" else REDACTED


def _stream(data: Data, metadata: Metadata, names: Pseudonyms) -> Iterator[bytes]:
    """A good packet anew; as many zeros as there is of anything else."""
    dtypes = {
        number: metadata.dtypes[name]
        for name, number in metadata.points.items()
        if name in metadata.dtypes
    }
    at = 0
    for packet in good_packets(data, metadata.uuid):
        begin = (packet.first_slot - HEAD_SLOTS) * EVENT_BYTES
        yield from _zeros(begin - at)
        yield _packet(data, begin, packet, dtypes, names)
        at = packet.end
    yield from _zeros(len(data) - at)


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield ZEROS[:count]
        count -= len(ZEROS)


def _packet(data: Data, begin: int, packet: Packet, dtypes: Dtypes, names: Pseudonyms) -> bytes:
    slots = np.frombuffer(data, np.uint8, packet.count * EVENT_BYTES, begin + HEAD_BYTES)
    events = _events(slots.reshape(-1, EVENT_BYTES), dtypes, names)
    made = bytearray(packet.end - begin)
    made[: HEAD.size] = data[begin : begin + HEAD.size]
    made[HEAD_BYTES : HEAD_BYTES + events.size] = events.tobytes()
    struct.pack_into("<I", made, CRC_AT, 0)
    struct.pack_into("<I", made, CRC_AT, zlib.crc32(made))
    return bytes(made)


def _events(slots: NDArray[np.uint8], dtypes: Dtypes, names: Pseudonyms) -> NDArray[np.uint8]:
    """The same events, of whose bytes only those are kept that a field covers."""
    made = np.zeros_like(slots)
    numbers = slots[:, 8:10].copy().view("<u2").ravel()
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        dtype = dtypes.get(number)
        if dtype is None:
            # Its header is every event's.
            made[rows, :16] = slots[rows, :16]
            continue
        events = slots[rows].view(dtype).ravel()
        clean: NDArray[Any] = np.zeros(len(rows), dtype)
        for name in dtype.names or ():
            clean[name] = _column(name, events[name], names)
        _hide_addresses(clean, names)
        made[rows] = clean.view(np.uint8).reshape(len(rows), EVENT_BYTES)
    return made


def _hide_addresses(events: NDArray[Any], names: Pseudonyms) -> None:
    """Of both ends of a connection, where events have them."""
    for end in ENDS:
        high, low = f"{end}_high", f"{end}_low"
        if not {high, low} <= {*(events.dtype.names or ())}:
            continue
        whole = events[[high, low]]
        for address in np.unique(whole):
            hidden = names.halves(int(address[high]), int(address[low]))
            rows = whole == address
            events[high][rows], events[low][rows] = hidden


def _column(name: str, column: NDArray[Any], names: Pseudonyms) -> NDArray[Any]:
    if name in HASHES:
        unique, place = np.unique(column, return_inverse=True)
        hidden = [names.hashed(name, number) for number in unique.tolist()]
        return np.array(hidden, column.dtype)[place]
    if column.dtype.kind != "S" or name in EVENT_HEADER or name in KEPT_FIELDS:
        return column
    rename: Rename = names.part if name == "text" else names.process
    # What is behind its end is nothing of the name.
    ended = {text: text.split(b"\0")[0] for text in np.unique(column).tolist()}
    room = column.dtype.itemsize - 1
    return np.array([rename(ended[text])[:room] for text in column.tolist()], column.dtype)


def _redact_facts(source: Path, target: Path, names: Pseudonyms) -> None:
    target.mkdir()
    blocks = _devices(source / "block")
    lines: Mapping[str, Callable[[str], str | None]] = {
        **{name: lambda line: line for name in KEPT_FACTS},
        "mountinfo": lambda line: _mount(line, blocks, names),
        "cgroups": lambda line: _cgroup(line, names),
        "cards": lambda line: _first_cell(line, "", lambda cell: _renamed(cell, names.name)),
        "throttled": lambda line: _vmm(line, names),
        "vmms": lambda line: _vmm(line, names),
        ECHOES: lambda line: _first_cell(line, "address", names.address),
    }
    for path in sorted(source.iterdir()):
        made: Iterator[str]
        told = [line for _, line in fact.read_lines(path, [])] if path.is_file() else []
        if path.name in lines:
            rename = lines[path.name]
            made = (line for one in told if (line := rename(one)) is not None)
        elif path.name in TABLES:
            made = _table(told, {name: _cell(kind, names) for name, kind in TABLES[path.name]})
        else:
            continue
        (target / path.name).write_bytes(
            "".join(f"{line}\n" for line in made).encode(errors="surrogateescape")
        )


# Of tables whose first line names the columns: those that hold names, and of what.
TABLES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "block": (("backing", "path"),),
    "connections": (
        ("mount_point", "path"),
        ("source", "address"),
        ("address", "address"),
        ("interface", "name"),
        ("gateway", "address"),
        ("local_address", "address"),
    ),
}


def _cell(kind: str, names: Pseudonyms) -> Callable[[str], str]:
    if kind == "address":
        return names.address
    rename = names.path if kind == "path" else names.name
    return lambda text: _renamed(text, rename)


def _table(lines: list[str], renames: Mapping[str, Callable[[str], str]]) -> Iterator[str]:
    columns = lines[0].split("\t") if lines else []
    yield from lines[:1]
    for line in lines[1:]:
        cells = line.split("\t")
        if len(cells) != len(columns):
            continue
        yield "\t".join(
            renames[name](cell) if name in renames and cell != fact.ABSENT else cell
            for name, cell in zip(columns, cells, strict=True)
        )


def _renamed(text: str, rename: Rename) -> str:
    return rename(text.encode(errors="surrogateescape")).decode()


def _devices(path: Path) -> frozenset[str]:
    """The names of the machine's block devices: they are the kernel's."""
    rows = [line.split("\t") for _, line in fact.read_lines(path, [])]
    place = rows[0].index("name") if rows and "name" in rows[0] else -1
    return frozenset(row[place] for row in rows[1:] if 0 <= place < len(row))


def _mount(line: str, blocks: frozenset[str], names: Pseudonyms) -> str | None:
    """A mount, with the one option that is read: where an overlay writes to."""
    try:
        mount = fact.parse_mount(line)
    except (ValueError, IndexError):
        return None
    device = mount.source.removeprefix("/dev/")
    if device in blocks or mount.source == mount.file_system:
        source = mount.source
    else:
        source = names.address(mount.source)
    words = [word for word in mount.options.split(",") if word in ("rw", "ro", "sync")]
    upper = [word for word in mount.options.split(",") if word.startswith("upperdir=")]
    words += [f"upperdir={_path(unescape(word[9:]), names)}" for word in upper]
    numbers = device_numbers(mount.device_key)
    root, point = (_path(text, names) for text in (mount.root, mount.mount_point))
    options = ",".join(words) or "rw"
    return f"1 1 {numbers} {root} {point} rw - {mount.file_system} {source} {options}"


def _path(path: str, names: Pseudonyms) -> str:
    # Escapes of bytes became characters of the same number; all others are as they were.
    return _renamed(path, names.path)


def _cgroup(line: str, names: Pseudonyms) -> str | None:
    number, _, path = line.partition("\t")
    if line == fact.CGROUP_COLUMNS:
        return line
    return f"{number}\t{_renamed(path, names.cgroup)}" if number.isdecimal() else None


def _vmm(line: str, names: Pseudonyms) -> str | None:
    number, _, name = line.partition("\t")
    name = name if name == fact.ABSENT else _renamed(name, names.name)
    return f"{number}\t{name}" if number.isdecimal() else None


def _first_cell(line: str, title: str, rename: Callable[[str], str]) -> str:
    cell, tab, rest = line.partition("\t")
    return line if cell == title else rename(cell) + tab + rest
