# SPDX-License-Identifier: Apache-2.0
"""BTF: an object with types, as ``bpftool btf dump -j`` prints it, to its structs and enums.

Only what event layouts need: integers, arrays, structs, unions, enumerations
and the qualifiers that lead to them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iostrata.errors import IostrataError

Type = dict[str, Any]
"""As bpftool names what is in it: ``kind``, ``name``, ``size``, ``members``, ``values``…"""

QUALIFIERS = frozenset({"TYPEDEF", "VOLATILE", "CONST", "RESTRICT", "TYPE_TAG"})


def types_of(built: Path) -> Types:
    """The types of an object that was compiled with -g. Errors: IostrataError."""
    try:
        shown = subprocess.run(
            ["bpftool", "-j", "btf", "dump", "file", built],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise IostrataError(
            "no bpftool to read the object's types with", "install bpftool"
        ) from None
    found = json.loads(shown.stdout or "{}")
    if "types" not in found:
        raise IostrataError(
            f"{built} has no BTF: {found.get('error', shown.stderr.strip())}",
            "compile with -g: `make -C bpf` does",
        )
    return Types(found["types"])


class Types:
    def __init__(self, types: Sequence[Type]) -> None:
        self._types = {found["id"]: found for found in types}

    def find(self, kind: str, name: str) -> Type:
        for found in self._types.values():
            if found["kind"] == kind and found["name"] == name:
                return found
        raise IostrataError(
            f"the BTF has no type {name}",
            "a global variable must refer to a type for it to reach the BTF",
        )

    def members(self, aggregate: Type) -> list[tuple[str, Type, int]]:
        """Name, type and byte offset of each member of a struct or union."""
        return [
            (member["name"], self.resolve(member["type_id"]), member["bits_offset"] // 8)
            for member in aggregate["members"]
        ]

    def format(self, member: Type) -> str:
        """A member as a NumPy format: ``<u8``, ``<i4``, ``S16``."""
        if member["kind"] == "ARRAY" and self.resolve(member["type_id"])["name"] == "char":
            return f"S{member['nr_elems']}"
        if member["kind"] == "INT":
            return f"<{'i' if member['encoding'] == 'SIGNED' else 'u'}{member['size']}"
        raise IostrataError(
            f"an event's field has a type that CTF cannot hold: {member['name']}",
            "use integers and char arrays in bpf/events.h",
        )

    def resolve(self, number: int) -> Type:
        found = self._types[number]
        return self.resolve(found["type_id"]) if found["kind"] in QUALIFIERS else found
