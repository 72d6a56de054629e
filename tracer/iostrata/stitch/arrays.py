# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what md hands on in, how arrays are laid out on their disks out.

The sector of an array has its place on a disk by how long a chunk is, and how many disks have the
data of a stripe (raid5_compute_sector of drivers/md/raid5.c). Neither is recorded; but of data md
says both places (ops_run_io), which mostly leaves one answer. Of its own arrays and mirrors device
mapper has told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, distinct
from iostrata.stitch.window import Window, whole
from iostrata.trace import BlockDevice, Facts, Trace

MD_MAJOR: Final = 9
LEARNT_FROM: Final = 1 << 17
"""So many bios that were handed on are looked at: a layout is the same all along."""
MOST_QUEUED: Final = 1 << 19
"""The same of those that are queued meanwhile, anywhere."""
BEHIND: Final = 64
"""So many are queued, on other CPUs, between when the last of these is handed on and queued."""
SAMPLE: Final = 512
CHUNKS: Final = tuple(8 << number for number in range(20))
"""In sectors: powers of two, from a page on, that of md's stripes."""


@dataclass(frozen=True)
class Layout:
    """``chunk``: in sectors; ``disks``: how many have the data of a stripe; ``begin_of``: the
    sector where that begins on each device that was seen to have any. ``first``, ``count``: the
    sectors of the device that a mirror is of, ``count`` 0: all.
    """

    chunk: int
    disks: int
    begin_of: Mapping[int, int]
    first: int = 0
    count: int = 0

    def place_of(self, sector: Ints) -> Ints:
        """How far behind the data's begin on its disk a sector of the array is."""
        row, rest = sector // (self.chunk * self.disks), sector % self.chunk
        return row * self.chunk + rest

    def begin_on(self, device: Ints) -> Ints:
        """Where the data begins on disks, -1: nobody knows.

        Who was not seen to have any is taken to have it where all others do.
        """
        begins = {*self.begin_of.values()}
        found = np.full(len(device), begins.pop() if len(begins) == 1 else -1)
        for key, begin in self.begin_of.items():
            found[device == key] = begin
        return found

    def place_on(self, device: Ints, sector: Ints) -> Ints:
        """How far behind the data's begin sectors of disks are, -1: before it, or nobody knows;
        of a mirror, which sectors of the device they are."""
        begin = self.begin_on(device)
        there = (begin >= 0) & (sector >= begin)
        if self.count:
            there &= sector < begin + self.count
        return np.where(there, sector - begin + self.first, -1)

    def reaches(self, place: Ints, count: Ints, begin: Ints, end: Ints) -> NDArray[np.bool_]:
        """Whether ``count`` sectors at a place, of any disk, are some of ``begin`` .. ``end``."""
        first = place // self.chunk * self.chunk * self.disks + place % self.chunk
        # The first disk's that does not end before: the others have those a chunk further each.
        disk = np.clip(-((first + count - 1 - begin) // self.chunk), 0, self.disks - 1)
        first = first + disk * self.chunk
        some: NDArray[np.bool_] = (first < end) & (first + count > begin)
        return some

    def allows(self, above: Ints, device: Ints, sector: Ints) -> bool:
        """Whether sectors above can be at those below."""
        begin = self.begin_on(device)
        return bool(((begin < 0) | (begin + self.place_of(above) == sector)).all())


@dataclass(frozen=True)
class Array:
    """``layouts``: which what it says allows. ``zero``: sector 0 may be that of a parity, too."""

    layouts: tuple[Layout, ...]
    zero: bool


NO_ARRAY: Final = Array((), zero=False)


def arrays_of(trace: Trace) -> Mapping[int, Array]:
    """md's arrays, by device, that handed something on."""
    return whole(trace).once(_arrays_of)


def is_mirror(block: BlockDevice) -> bool:
    """Of device mapper's, each disk of which has all."""
    return bool(block.striping) and not any(part.chunk for part in block.striping)


def told_of(facts: Facts) -> Mapping[int, tuple[Layout, ...]]:
    """Device mapper's arrays and mirrors, by device, one behind the other."""
    return {
        block.device_key: tuple(
            Layout(
                part.chunk or CHUNKS[0],
                part.disks,
                {key: begin for key, begin in part.begins if facts.disk_of(key) == key},
                part.first,
                part.length,
            )
            for part in block.striping
        )
        for block in facts.blocks.values()
        if block.striping
    }


def _arrays_of(window: Window) -> dict[int, Array]:
    handed, queued = (window.trace.points[name] for name in ("block_bio_remap", "block_bio_queue"))
    if not len(handed):
        return {}
    told = handed.integers("bio_key", "dev", "old_dev", "old_sector", "size_bytes", end=LEARNT_FROM)
    mine = (told["old_dev"] >> 20 == MD_MAJOR) & (told["size_bytes"] > 0)
    if not mine.any():
        return {}
    told = {name: column[mine] for name, column in told.items()}
    edges = told["time_ns"][[0, -1]].view(np.uint64)
    first, last = queued.time_ns.searchsorted(edges).tolist()
    last = min(last + BEHIND, first + MOST_QUEUED)
    below = queued.integers("bio_key", "dev", "sector", begin=first, end=last)
    # On a partition it is queued at the place of the whole disk only.
    row = AsOf(below["bio_key"], below["time_ns"]).at_or_after(told["bio_key"], told["time_ns"])
    sector = np.where(at(below["dev"], row) == told["dev"], at(below["sector"], row), -1)
    found = {}
    for key in distinct(told["old_dev"]).tolist():
        block = window.trace.facts.blocks.get(key)
        # A stripe's parities are at least as many as the disks that have failed.
        disks = len(block.lower_keys) if block else 0
        own = (told["old_dev"] == key) & (sector >= 0)
        data, zero = own & (told["old_sector"] > 0), own & (told["old_sector"] == 0)
        layouts = allowed(disks, told["old_sector"][data], told["dev"][data], sector[data])
        found[key] = Array(tuple(layouts), len(distinct(sector[zero])) > 1)
    return found


def allowed(disks: int, above: Ints, device: Ints, sector: Ints) -> list[Layout]:
    """Layouts by which sectors ``above`` are at those of disks, whose data may begin anywhere.

    ``disks``: how many have a stripe's data at most; where nothing is told, none is known.
    """
    if not len(above):
        return []
    keys, first = np.unique(device, return_index=True)
    few = slice(None, None, len(above) // SAMPLE or 1)
    found = []
    for chunk, count in product(CHUNKS, range(1, disks + 1)):
        layout = Layout(chunk, count, {})
        begin = sector[first] - layout.place_of(above[first])
        layout = Layout(chunk, count, dict(zip(keys.tolist(), begin.tolist(), strict=True)))
        if (
            (begin >= 0).all()
            and layout.allows(above[few], device[few], sector[few])
            and layout.allows(above, device, sector)
        ):
            found.append(layout)
    return found


def agreed(every: Sequence[Layout], sector: Ints, size_bytes: Ints) -> Layout | None:
    """Any of several layouts that tell of the same places for all that is asked for, if they do."""
    if len(every) > 1:
        edges = _edges(sector, size_bytes, min(layout.chunk for layout in every))
        first, *others = (
            [layout.place_of(edges) + begin for begin in layout.begin_of.values()]
            for layout in every
        )
        if any(not np.array_equal(first, places) for places in others):
            return None
    return every[0] if every else None


def _edges(first: Ints, size_bytes: Ints, chunk: int) -> Ints:
    """Where bios begin, and each chunk within: from there on, places follow one another."""
    last = first + np.maximum(size_bytes // 512, 1) - 1
    more = last // chunk - first // chunk
    behind = np.arange(more.sum()) - np.repeat(np.cumsum(more) - more, more) + 1
    return np.concatenate([first, (np.repeat(first // chunk, more) + behind) * chunk])
