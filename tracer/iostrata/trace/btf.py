# SPDX-License-Identifier: Apache-2.0
"""BTF: the bytes of a type section, or of an ELF object with one, to its structs and enums.

Only what event layouts need: integers, arrays, structs, unions, enumerations
and the qualifiers that lead to them. Format: the kernel's
Documentation/bpf/btf.rst.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from iostrata.errors import IostrataError

MAGIC = 0xEB9F
INT, POINTER, ARRAY, STRUCT, UNION, ENUM = 1, 2, 3, 4, 5, 6
TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG = 8, 9, 10, 11, 18
TRAILER_BYTES = {
    INT: (4, 0),
    ARRAY: (12, 0),
    STRUCT: (0, 12),
    UNION: (0, 12),
    ENUM: (0, 8),
    13: (0, 8),
    14: (4, 0),
    15: (0, 12),
    17: (4, 0),
    19: (0, 12),
}
QUALIFIERS = frozenset({TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG})
INT_SIGNED, INT_CHAR = 1, 2


@dataclass(frozen=True)
class Type:
    """``size``: bytes, or the number of the type referred to. ``trailer``: what follows it."""

    kind: int
    name: str
    size: int
    trailer: bytes


class Types:
    def __init__(self, data: bytes) -> None:
        """``data``: a .BTF section, or an ELF file that has one."""
        if data[:4] == b"\x7fELF":
            data = elf_section(data, b".BTF")
        if len(data) < 24 or struct.unpack_from("<H", data)[0] != MAGIC:
            raise IostrataError(
                "this is neither BTF nor an object with a .BTF section",
                "compile with -g: `make -C bpf` does",
            )
        start, type_at, type_bytes, name_at, name_bytes = struct.unpack_from("<IIIII", data, 4)
        self._names = data[start + name_at : start + name_at + name_bytes]
        self._types = [Type(0, "void", 0, b"")]
        at, end = start + type_at, start + type_at + type_bytes
        while at < end:
            name, info, size = struct.unpack_from("<III", data, at)
            kind, count = info >> 24 & 31, info & 0xFFFF
            fixed, each = TRAILER_BYTES.get(kind, (0, 0))
            length = fixed + each * count
            trailer = data[at + 12 : at + 12 + length]
            self._types.append(Type(kind, self._string(name), size, trailer))
            at += 12 + length

    def find(self, kind: int, name: str) -> Type:
        for found in self._types:
            if found.kind == kind and found.name == name:
                return found
        raise IostrataError(
            f"the BTF has no type {name}",
            "a global variable must refer to a type for it to reach the BTF",
        )

    def members(self, aggregate: Type) -> list[tuple[str, Type, int]]:
        """Name, type and byte offset of each member of a struct or union."""
        rows = struct.iter_unpack("<III", aggregate.trailer)
        return [
            (self._string(name), self.resolve(number), bits // 8) for name, number, bits in rows
        ]

    def enumerators(self, enumeration: Type) -> dict[str, int]:
        return {
            self._string(name): value
            for name, value in struct.iter_unpack("<Ii", enumeration.trailer)
        }

    def format(self, member: Type) -> str:
        """A member as a NumPy format: ``<u8``, ``<i4``, ``S16``."""
        if member.kind == ARRAY:
            number, _, count = struct.unpack("<III", member.trailer)
            element = self.resolve(number)
            if element.name == "char":
                return f"S{count}"
        elif member.kind == INT:
            encoding = struct.unpack("<I", member.trailer)[0] >> 24
            return f"<{'i' if encoding & INT_SIGNED else 'u'}{member.size}"
        raise IostrataError(
            f"an event's field has a type that CTF cannot hold: {member.name}",
            "use integers and char arrays in bpf/events.h",
        )

    def resolve(self, number: int) -> Type:
        found = self._types[number]
        return self.resolve(found.size) if found.kind in QUALIFIERS else found

    def _string(self, at: int) -> str:
        return self._names[at : self._names.index(0, at)].decode()


def elf_section(data: bytes, wanted: bytes) -> bytes:
    """One section of a 64-bit little-endian ELF file; empty if it has none of that name."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQ", data, table + index * entry_bytes) for index in range(count)
    ]
    names_at = sections[names_index][4]
    for name, _, _, _, offset, size in sections:
        start = names_at + name
        if data[start : data.index(0, start)] == wanted:
            return data[offset : offset + size]
    return b""
