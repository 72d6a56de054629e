# SPDX-License-Identifier: Apache-2.0
"""The script stage: what the machine's own files said in, facts of a trace out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from iostrata.trace import BlockDevice, block_fact, count

PARTITION: Final = re.compile(r"\s*(\d{1,4})\s+(\d{1,7})\s+\d+\s+(\S{1,64})", re.ASCII)
DISKSTATS: Final = re.compile(r"\s*(\d{1,4})\s+(\d{1,7})\s+([^\s\d]\S{0,63})(\s.*)?", re.ASCII)
MINOR_BITS: Final = 20
MOST_CPUS: Final = 1 << 16


def devices_of(lines: Iterable[str]) -> dict[int, str]:
    """The names of block devices, of lines of /proc/partitions or /proc/diskstats."""
    found = {}
    for line in lines:
        match = PARTITION.fullmatch(line) or DISKSTATS.fullmatch(line)
        if match and int(match[1]) < 1 << 12 and int(match[2]) < 1 << MINOR_BITS:
            found[int(match[1]) << MINOR_BITS | int(match[2])] = match[3]
    return found


def parents_of(names: Mapping[int, str]) -> dict[int, int]:
    """The disk of each partition: it is named as disk_name() of the kernel does."""
    keys = {name: key for key, name in names.items()}
    parents = {}
    for key, name in names.items():
        disk = name.rstrip("0123456789")
        if disk != name and disk[-2:-1].isdigit() and disk.endswith("p"):
            disk = disk[:-1]
        elif disk[-1:].isdigit() or disk == name:
            continue
        if disk in keys:
            parents[key] = keys[disk]
    return parents


def facts_of(names: Mapping[int, str], mounts: Iterable[str]) -> dict[str, str]:
    """The text of each fact."""
    parents = parents_of(names)
    blocks = [BlockDevice(key, name, parents.get(key, 0)) for key, name in names.items()]
    told = {"mountinfo": "".join(f"{line}\n" for line in mounts if line)}
    if blocks:
        told["block"] = block_fact(blocks)
    return {name: text for name, text in told.items() if text}


def cpus_of(text: str) -> int:
    """``0-3,8``: 9, one more than the last; 0: not told."""
    last = re.search(r"(\d{1,5})\s*$", text, re.ASCII)
    return min(count(last[1]) + 1, MOST_CPUS) if last else 0
