# SPDX-License-Identifier: Apache-2.0
"""CTF metadata: the layout and the machine's facts to TSDL text, and TSDL text back.

Fields are placed by CTF's own alignment rules, so events of other versions are
read by their own metadata.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from uuid import UUID

import numpy as np

from iostrata.errors import RecordingError
from iostrata.foreign import shown
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.tsdl import Node, Parser, Struct, number, struct

FORMAT_VERSION = 1
MOST_CPUS = 1 << 16
# Of events: their header has 16 bits for it.
NUMBERS = 1 << 16
EVENT_HEADER = ("time_ns", "point", "cpu", "tid")
CTF_NAMES = {"timestamp": "time_ns", "id": "point"}
PACKET_FIELDS = (
    ("magic", "<u4", 0),
    ("uuid", "V16", 4),
    ("stream_id", "<u4", 20),
    ("timestamp_begin", "<u8", 24),
    ("timestamp_end", "<u8", 32),
    ("content_size", "<u8", 40),
    ("packet_size", "<u8", 48),
    ("packet_seq_num", "<u8", 56),
    ("events_discarded", "<u8", 64),
    ("cpu_id", "<u4", 72),
    ("crc32", "<u4", 76),
)
BEGIN = "/* CTF 1.8 */"
LAST = r"(?:\};|/\* crc32 [0-9a-f]{8} \*/)\s*\Z"
HEX_NAMES = frozenset({"flags", "lsn", "iclog"})
FOREIGN_HINT = "iostrata reads what iostrata-record writes; was this directory made by it?"


@dataclass(frozen=True)
class Clock:
    """``offset_s`` + ``offset`` ns: realtime minus monotonic when the recording began."""

    name: str = "monotonic"
    uuid: str = ""
    description: str = "CLOCK_MONOTONIC"
    offset_s: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Metadata:
    """``points``: number by name. ``dtypes``: how a point's event lies in its slot."""

    uuid: bytes
    env: Mapping[str, str | int]
    clock: Clock
    points: Mapping[str, int]
    dtypes: Mapping[str, np.dtype[np.void]]


def is_hex(field: str) -> bool:
    """Whether a field is an identity or a set of flags rather than a quantity."""
    return field in HEX_NAMES or field.endswith(("_key", "_flags"))


PREAMBLE = """/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 8; align = 8; signed = true; } := int8_t;
typealias integer { size = 16; align = 8; signed = true; } := int16_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 8; align = 8; signed = false; base = 16; } := xint8_t;
typealias integer { size = 16; align = 8; signed = false; base = 16; } := xint16_t;
typealias integer { size = 32; align = 8; signed = false; base = 16; } := xint32_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := xint64_t;
typealias integer { size = 8; align = 8; signed = true; encoding = UTF8; } := char_t;
"""
BODY = """
trace {{
	major = 1;
	minor = 8;
	uuid = "{uuid}";
	byte_order = le;
	packet.header := struct {{
		uint32_t magic;
		uint8_t uuid[16];
		uint32_t stream_id;
	}};
}};

env {{
{env}}};

clock {{
	name = {clock.name};
{clock_uuid}	description = {description};
	freq = 1000000000;
	offset_s = {clock.offset_s};
	offset = {clock.offset};
	absolute = false;
}};

typealias integer {{
	size = 64; align = 8; signed = false; map = clock.{clock.name}.value;
}} := clock_t;

stream {{
	id = 0;
	packet.context := struct {{
		clock_t timestamp_begin;
		clock_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t packet_seq_num;
		uint64_t events_discarded;
		uint32_t cpu_id;
		uint32_t crc32;
	}};
	event.header := struct {{
		clock_t time_ns;
		uint16_t id;
	}} align(512);
	event.context := struct {{
		uint16_t cpu;
		uint32_t tid;
	}};
}};
"""
EVENT = """
event {{
	name = "{name}";
	id = {number};
	stream_id = 0;
	fields := struct {{
{fields}	}};
}};
"""


def render(
    points: Mapping[str, int],
    dtypes: Mapping[str, np.dtype[np.void]],
    env: Mapping[str, str | int],
    clock: Clock,
    uuid: bytes,
) -> str:
    """The metadata file's text: plain TSDL."""
    values = "".join(
        f"\t{name} = {quoted(value) if isinstance(value, str) else value};\n"
        for name, value in env.items()
    )
    clock_uuid = f'\tuuid = "{clock.uuid}";\n' if clock.uuid else ""
    parts = [
        PREAMBLE,
        BODY.format(
            uuid=UUID(bytes=uuid),
            env=values,
            clock=clock,
            clock_uuid=clock_uuid,
            description=quoted(clock.description),
        ),
    ]
    parts += [
        EVENT.format(name=name, number=number, fields=render_fields(dtypes[name]))
        for name, number in points.items()
    ]
    text = "".join(parts)
    return f"{text}\n/* crc32 {zlib.crc32(text.encode()):08x} */\n"


def render_fields(dtype: np.dtype[np.void]) -> str:
    return "".join(
        f"\t\t{render_field(name, dtype[name])};\n"
        for name in dtype.names or ()
        if name not in EVENT_HEADER
    )


def render_field(name: str, dtype: np.dtype[np.generic]) -> str:
    if dtype.kind == "S":
        return f"char_t {name}[{dtype.itemsize}]"
    sign = "" if dtype.kind == "i" else "x" if is_hex(name) else "u"
    return f"{sign}int{dtype.itemsize * 8}_t {name}"


def quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": ""}
    return '"' + "".join(escapes.get(letter, letter) for letter in text) + '"'


def parse(text: str) -> Metadata:
    """What a metadata file says; RecordingError where it is not of this format."""
    version = re.search(r"\biostrata_format\s*=\s*(\d+)", text)
    if version is None:
        check_whole(text)
    check_version(int(version[1]) if version else None)
    check_sum(text)
    try:
        return build(Parser(text).blocks())
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        check_whole(text)
        raise RecordingError(
            f"the metadata is broken or not of iostrata ({error})", FOREIGN_HINT
        ) from error


def place(*structs: Struct) -> list[tuple[str, str, int]]:
    """Name, format and byte offset of each field, one struct after the other."""
    placed = []
    at = 0
    for found in structs:
        at = -(-at // found.align_bits) * found.align_bits
        for name, field in found.fields:
            at = -(-at // field.align_bits) * field.align_bits
            placed.append((name, field.format, at // 8))
            at += bytes_of(field.format) * 8
    return placed


@cache
def bytes_of(format: str) -> int:
    """Of a NumPy type: the few that there are come again and again."""
    return np.dtype(format).itemsize


def build(blocks: list[tuple[str, dict[str, Node]]]) -> Metadata:
    by_name = {name: entries for name, entries in blocks if name != "event"}
    env = {
        key: value for key, value in by_name.get("env", {}).items() if isinstance(value, (str, int))
    }
    if not 0 <= number(env, "machine_cpus", 0) <= MOST_CPUS:
        raise ValueError("no machine has so many CPUs")
    trace, stream = by_name["trace"], by_name["stream"]
    packet = place(struct(trace, "packet.header"), struct(stream, "packet.context"))
    if packet != list(PACKET_FIELDS):
        raise ValueError("packets begin with other fields")
    header = struct(stream, "event.header")
    if header.align_bits != EVENT_BYTES * 8:
        raise ValueError(f"events are not in slots of {EVENT_BYTES} bytes")
    events = {shown(str(entries["name"])): entries for name, entries in blocks if name == "event"}
    numbers = {number(entries, "id") for name, entries in blocks if name == "event"}
    if not len(events) == len(numbers) == sum(name == "event" for name, _ in blocks):
        raise ValueError("two events share a name or a number")
    if not all(0 <= one < NUMBERS for one in numbers):
        raise ValueError("an event has a number that has no room in its header")
    heads = (header, struct(stream, "event.context"))
    return Metadata(
        uuid=UUID(str(trace["uuid"])).bytes,
        env=env,
        clock=build_clock(by_name["clock"]),
        points={name: number(entries, "id") for name, entries in events.items()},
        dtypes={
            name: event_dtype(place(*heads, struct(entries, "fields")))
            for name, entries in events.items()
        },
    )


def build_clock(entries: Mapping[str, Node]) -> Clock:
    if number(entries, "freq", 1_000_000_000) != 1_000_000_000:
        raise ValueError("the clock does not count nanoseconds")
    return Clock(
        name=str(entries["name"]),
        uuid=str(entries.get("uuid", "")),
        description=str(entries.get("description", "")),
        offset_s=number(entries, "offset_s", 0),
        offset=number(entries, "offset", 0),
    )


def event_dtype(placed: list[tuple[str, str, int]]) -> np.dtype[np.void]:
    names = [CTF_NAMES.get(name, name) for name, _, _ in placed]
    if names[:4] != list(EVENT_HEADER):
        raise ValueError("events begin with other fields")
    if max(at + bytes_of(fmt) for _, fmt, at in placed) > EVENT_BYTES:
        raise ValueError(f"an event takes more than {EVENT_BYTES} bytes")
    return np.dtype(
        {
            "names": names,
            "formats": [fmt for _, fmt, _ in placed],
            "offsets": [at for _, _, at in placed],
            "itemsize": EVENT_BYTES,
        }
    )


def check_version(version: int | None) -> None:
    """Before anything else is looked at: a newer format may be written otherwise."""
    if version is None:
        raise RecordingError("the metadata does not say that iostrata recorded it", FOREIGN_HINT)
    if version > FORMAT_VERSION:
        raise RecordingError(
            f"the recording has format {version}; this iostrata reads up to {FORMAT_VERSION}",
            "upgrade iostrata",
        )


def check_whole(text: str) -> None:
    """What cannot be understood may be the beginning of what could."""
    ours = text.startswith(BEGIN) or BEGIN.startswith(text)
    if ours and not (re.search(LAST, text) and text.count("{") == text.count("}")):
        raise RecordingError(
            f"the metadata is cut short: it ends after {len(text)} bytes, in the midst of a block",
            "copy the recording anew, whole, or record again if the disk was full; without it the "
            "events cannot be read",
        )


def check_sum(text: str) -> None:
    """The last comment may hold the checksum of all before it and the newline before it."""
    seal = re.search(r"\n/\* crc32 ([0-9a-f]{8}) \*/\s*$", text)
    if seal and zlib.crc32(text[: seal.start()].encode(errors="surrogateescape")) != int(
        seal[1], 16
    ):
        raise RecordingError(
            "the metadata is damaged (checksum mismatch)",
            "restore the file; without it the events cannot be trusted",
        )
