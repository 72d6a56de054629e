# SPDX-License-Identifier: Apache-2.0
"""CTF metadata: the layout and the machine's facts to TSDL text, and TSDL text back.

``parse`` takes the subset of TSDL that iostrata's recorder writes, in whatever
layout of lines: type aliases, structs of integers and integer arrays, and the
trace, env, clock, stream and event blocks. Fields are placed by CTF's own
alignment rules, so events of other versions are read by their own metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from iostrata.errors import RecordingError
from iostrata.trace.layout import EVENT_BYTES

FORMAT_VERSION = 1
EVENT_HEADER = ("time_ns", "point", "cpu", "tid")
PACKET_FIELDS = (
    ("magic", "<u4", 0), ("uuid", "V16", 4), ("stream_id", "<u4", 20),
    ("timestamp_begin", "<u8", 24), ("timestamp_end", "<u8", 32), ("content_size", "<u8", 40),
    ("packet_size", "<u8", 48), ("packet_seq_num", "<u8", 56), ("events_discarded", "<u8", 64),
    ("cpu_id", "<u4", 72), ("crc32", "<u4", 76),
)
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


# Writing ------------------------------------------------------------------------------------

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


def render(points: Mapping[str, int], dtypes: Mapping[str, np.dtype[np.void]],
           env: Mapping[str, str | int], clock: Clock, uuid: bytes) -> str:
    """The metadata file's text: plain TSDL."""
    values = "".join(f"\t{name} = {quoted(value) if isinstance(value, str) else value};\n"
                     for name, value in env.items())
    clock_uuid = f'\tuuid = "{clock.uuid}";\n' if clock.uuid else ""
    parts = [PREAMBLE, BODY.format(uuid=UUID(bytes=uuid), env=values, clock=clock,
                                   clock_uuid=clock_uuid, description=quoted(clock.description))]
    parts += [EVENT.format(name=name, number=number, fields=render_fields(dtypes[name]))
              for name, number in points.items()]
    return "".join(parts)


def render_fields(dtype: np.dtype[np.void]) -> str:
    return "".join(f"\t\t{render_field(name, dtype[name])};\n"
                   for name in dtype.names or () if name not in EVENT_HEADER)


def render_field(name: str, dtype: np.dtype[np.generic]) -> str:
    if dtype.kind == "S":
        return f"char_t {name}[{dtype.itemsize}]"
    sign = "" if dtype.kind == "i" else "x" if is_hex(name) else "u"
    return f"{sign}int{dtype.itemsize * 8}_t {name}"


def quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": ""}
    return '"' + "".join(escapes.get(letter, letter) for letter in text) + '"'


# Reading ------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Field:
    """``format``: a NumPy type; ``align_bits``: where it may begin."""

    format: str
    align_bits: int


@dataclass(frozen=True)
class Struct:
    fields: tuple[tuple[str, Field], ...]
    align_bits: int


Node = Field | Struct | str | int
TOKEN = re.compile(r"""
    (?P<skip> \s+ | /\*.*?\*/ | //[^\n]* )
  | (?P<string> "(?:[^"\\]|\\.)*" )
  | (?P<number> [-+]?(?:0[xX][0-9a-fA-F]+|\d+) )
  | (?P<word> [A-Za-z_][A-Za-z0-9_.]* )
  | (?P<mark> := | [{}\[\]();=,<>:] )
""", re.VERBOSE | re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse(text: str) -> Metadata:
    """What a metadata file says; RecordingError where it is not of this format."""
    try:
        blocks = Parser(text).blocks()
        return build(blocks)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise RecordingError(f"the metadata is broken or not of iostrata ({error})",
                             FOREIGN_HINT) from error


class Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None:
                line = text.count("\n", 0, at) + 1
                raise ValueError(f"line {line}: unexpected {text[at]!r}")
            if match.lastgroup != "skip":
                self._tokens.append((str(match.lastgroup), match.group()))
            at = match.end()
        self._at = 0
        self._aliases: dict[str, Node] = {}

    def blocks(self) -> list[tuple[str, dict[str, Node]]]:
        """Every top-level block with its entries, in order."""
        found: list[tuple[str, dict[str, Node]]] = []
        while self._at < len(self._tokens):
            name = self._word()
            if name == "typealias":
                self._alias()
            elif name == "struct":
                self._struct()
            else:
                found.append((name, self._entries()))
            self._take(";")
        return found

    def _alias(self) -> None:
        kind = self._type()
        self._take(":=")
        self._aliases[self._name()] = kind

    def _entries(self) -> dict[str, Node]:
        """``{ key = value; key := type; }``"""
        entries: dict[str, Node] = {}
        self._take("{")
        while not self._have("}"):
            key = self._word()
            if key == "typealias":
                self._alias()
            elif self._have(":="):
                entries[key] = self._type()
            else:
                self._take("=")
                entries[key] = self._value()
            self._take(";")
        return entries

    def _type(self) -> Node:
        name = self._name()
        if name == "integer":
            return integer(self._entries())
        if name == "struct" or name.startswith("struct "):
            return self._struct(name)
        return self._aliases[name]

    def _struct(self, name: str = "struct") -> Struct:
        """``struct [NAME] [{ fields }] [align(BITS)]``; a name alone refers back."""
        if name == "struct" and self._tokens[self._at][0] == "word":
            name = f"struct {self._word()}"
        if not self._have("{"):
            known = self._aliases[name]
            if not isinstance(known, Struct):
                raise ValueError(f"{name} is no struct")
            return known
        fields = []
        while not self._have("}"):
            kind = self._field_type()
            field = self._word()
            if self._have("["):
                kind = array(kind, int(self._take_kind("number"), 0))
                self._take("]")
            self._take(";")
            fields.append((field, kind))
        align_bits = max([1, *(kind.align_bits for _, kind in fields)])
        if self._have("align"):
            self._take("(")
            align_bits = max(align_bits, int(self._take_kind("number"), 0))
            self._take(")")
        found = Struct(tuple(fields), align_bits)
        if name != "struct":
            self._aliases[name] = found
        return found

    def _field_type(self) -> Field:
        words = [self._word()]
        if words[0] == "integer":
            return integer(self._entries())
        while self._tokens[self._at + 1][0] == "word":
            words.append(self._word())
        kind = self._aliases[" ".join(words)]
        if not isinstance(kind, Field):
            raise ValueError(f"a field of type {' '.join(words)}")
        return kind

    def _name(self) -> str:
        words = [self._word()]
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "word":
            words.append(self._word())
        return " ".join(words)

    def _value(self) -> str | int:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return int(text, 0)
        if kind == "string":
            return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text[1:-1],
                          flags=re.DOTALL)
        if kind == "word":
            return text
        raise ValueError(f"unexpected {text!r}")

    def _word(self) -> str:
        return self._take_kind("word")

    def _take_kind(self, wanted: str) -> str:
        kind, text = self._tokens[self._at]
        if kind != wanted:
            raise ValueError(f"a {wanted} was expected, not {text!r}")
        self._at += 1
        return text

    def _take(self, wanted: str) -> None:
        if not self._have(wanted):
            raise ValueError(f"{wanted!r} was expected, not {self._tokens[self._at][1]!r}")

    def _have(self, wanted: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at][1] == wanted
        self._at += found
        return found


def integer(entries: Mapping[str, Node]) -> Field:
    size_bits = number(entries, "size")
    if size_bits not in (8, 16, 32, 64):
        raise ValueError(f"an integer of {size_bits} bits")
    if entries.get("byte_order", "le") not in ("le", "native"):
        raise ValueError("an integer that is not little-endian")
    if "encoding" in entries and entries["encoding"] != "none":
        return Field("S1", number(entries, "align", 8))
    signed = str(entries.get("signed", "false")).lower() in ("true", "1")
    return Field(f"<{'i' if signed else 'u'}{size_bits // 8}", number(entries, "align", 8))


def array(element: Field, count: int) -> Field:
    if element.format == "S1":
        return Field(f"S{count}", element.align_bits)
    if element.format == "<u1":
        return Field(f"V{count}", element.align_bits)
    raise ValueError("an array of something else than bytes")


def number(entries: Mapping[str, Node], key: str, default: int | None = None) -> int:
    value = entries.get(key, default)
    if not isinstance(value, int):
        raise ValueError(f"{key} is no number")
    return value


def struct(entries: Mapping[str, Node], key: str) -> Struct:
    value = entries[key]
    if not isinstance(value, Struct):
        raise ValueError(f"{key} is no struct")
    return value


def place(*structs: Struct) -> list[tuple[str, str, int]]:
    """Name, format and byte offset of each field, one struct after the other."""
    placed = []
    at = 0
    for found in structs:
        at = -(-at // found.align_bits) * found.align_bits
        for name, field in found.fields:
            at = -(-at // field.align_bits) * field.align_bits
            placed.append((name, field.format, at // 8))
            at += np.dtype(field.format).itemsize * 8
    return placed


def build(blocks: list[tuple[str, dict[str, Node]]]) -> Metadata:
    by_name = {name: entries for name, entries in blocks if name != "event"}
    env = {key: value for key, value in by_name.get("env", {}).items()
           if isinstance(value, (str, int))}
    check_version(env)
    trace, stream = by_name["trace"], by_name["stream"]
    packet = place(struct(trace, "packet.header"), struct(stream, "packet.context"))
    if packet != list(PACKET_FIELDS):
        raise ValueError("packets begin with other fields")
    header = struct(stream, "event.header")
    if header.align_bits != EVENT_BYTES * 8:
        raise ValueError(f"events are not in slots of {EVENT_BYTES} bytes")
    events = {str(entries["name"]): entries for name, entries in blocks if name == "event"}
    heads = (header, struct(stream, "event.context"))
    return Metadata(
        uuid=UUID(str(trace["uuid"])).bytes, env=env, clock=build_clock(by_name["clock"]),
        points={name: number(entries, "id") for name, entries in events.items()},
        dtypes={name: event_dtype(place(*heads, struct(entries, "fields")))
                for name, entries in events.items()},
    )


def build_clock(entries: Mapping[str, Node]) -> Clock:
    if number(entries, "freq", 1_000_000_000) != 1_000_000_000:
        raise ValueError("the clock does not count nanoseconds")
    return Clock(name=str(entries["name"]), uuid=str(entries.get("uuid", "")),
                 description=str(entries.get("description", "")),
                 offset_s=number(entries, "offset_s", 0), offset=number(entries, "offset", 0))


def event_dtype(placed: list[tuple[str, str, int]]) -> np.dtype[np.void]:
    names = ["point" if name == "id" else name for name, _, _ in placed]
    if names[:4] != list(EVENT_HEADER):
        raise ValueError("events begin with other fields")
    dtype = np.dtype({"names": names, "formats": [fmt for _, fmt, _ in placed],
                      "offsets": [at for _, _, at in placed]})
    if dtype.itemsize > EVENT_BYTES:
        raise ValueError(f"an event takes more than {EVENT_BYTES} bytes")
    return np.dtype({"names": names, "formats": [fmt for _, fmt, _ in placed],
                     "offsets": [at for _, _, at in placed], "itemsize": EVENT_BYTES})


def check_version(env: Mapping[str, str | int]) -> None:
    version = env.get("iostrata_format")
    if not isinstance(version, int):
        raise RecordingError("the trace does not say that iostrata recorded it", FOREIGN_HINT)
    if version > FORMAT_VERSION:
        raise RecordingError(
            f"the recording has format {version}; this iostrata reads up to {FORMAT_VERSION}",
            f"upgrade iostrata (the recording was made by {env.get('iostrata_version', '?')})")
