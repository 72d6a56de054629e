# SPDX-License-Identifier: Apache-2.0
"""What the facts of a machine were when its recording was complete: what has become of them since.

Events have checksums in their packets; facts are text that anything may cut, and tables are made of
them all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

import msgspec

from iostrata.trace import FACTS, MISSING, MOST_FACT_BYTES, is_trace_file, read_small


class Fact(msgspec.Struct, frozen=True):
    """A file of a machine's facts: its size in bytes, and the CRC-32 of it."""

    size: int
    crc32: int


def facts_in(directory: Path) -> dict[str, Fact]:
    """Those of a trace's directory by name; what cannot be read is not among them."""
    found = {}
    for path in sorted((directory / FACTS).glob("*")):
        if not is_trace_file(f"{FACTS}/{path.name}"):
            continue
        try:
            data = read_small(path, MOST_FACT_BYTES)
        except OSError:
            continue
        found[path.name] = Fact(len(data), crc32(data))
    return found


def changed(directory: Path, told: Mapping[str, Fact]) -> dict[str, str]:
    """What is wrong with each of the facts that were told of and are not what they were."""
    now = facts_in(directory) if told else {}
    return {name: _wrong(fact, now.get(name)) for name, fact in told.items()
            if fact != now.get(name)}  # fmt: skip


def _wrong(before: Fact, after: Fact | None) -> str:
    if after is None:
        return MISSING
    if after.size < before.size:
        return f"{after.size} of its {before.size} bytes are there"
    return "it is not what was recorded"


def kept_as(directory: Path, source: Path, told: Mapping[str, Fact]) -> dict[str, Fact]:
    """What is to be told of facts that were made of those of ``source``: of which something is
    wrong, it stays so."""
    found = facts_in(directory) if told else {}
    return found | {name: told[name] for name in changed(source, told)}
