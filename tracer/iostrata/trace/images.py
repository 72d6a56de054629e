# SPDX-License-Identifier: Apache-2.0
"""Facts of images: lines in, what they say of files that virtual machines have their disks in out.

A file is known as stat(2) has it: ``(device_key, inode)``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from iostrata.foreign import shown
from iostrata.trace.cells import count

OWN: Final = "-"

File = tuple[int, int]


@dataclass(frozen=True)
class Extent:
    """A range of an image's file, from ``place_bytes`` on, as it was at a time (CLOCK_MONOTONIC).

    ``offset_bytes``: where it begins on the guest's disk; -1: it is the image's own, its tables.
    """

    time_ns: int
    offset_bytes: int
    size_bytes: int
    place_bytes: int


def parse_image(line: str) -> tuple[File, str]:
    dev, inode, kind = line.split("\t")
    return _file(dev, inode), shown(kind)


def parse_file(line: str) -> File:
    dev, inode = line.split("\t")
    return _file(dev, inode)


def parse_extent(line: str) -> tuple[File, Extent]:
    time, dev, inode, offset, size, place = line.split("\t")
    extent = Extent(
        count(time),
        -1 if offset == OWN else count(offset),
        count(size),
        count(place),
    )
    return _file(dev, inode), extent


def _file(dev: str, inode: str) -> File:
    """Numbers of 64 bits keep their bits, as those of events do."""
    number = count(inode, 64)
    return count(dev, 32), number - (number >> 63 << 64)


def by_file(found: Iterable[tuple[File, Extent]]) -> Mapping[File, tuple[Extent, ...]]:
    files: dict[File, list[Extent]] = defaultdict(list)
    for file, extent in found:
        files[file].append(extent)
    return {file: tuple(extents) for file, extents in files.items()}
