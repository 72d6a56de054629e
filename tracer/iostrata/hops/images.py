# SPDX-License-Identifier: Apache-2.0
"""Hops: what QEMU served in, the same at the places that its guests, or clients, know out.

Of a raw image a place in the file is the guest's. Other formats keep what is written where they
have room: what is there is another block of the guest's, unless the image's map is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import numpy as np

from iostrata.columns import Ints, columns_of, integers, pair_key
from iostrata.hops.hop import READ_MARK, Link, Serves
from iostrata.hops.processes import ROOM_KEY, ROOM_MARK
from iostrata.hops.translation import NO_KEY
from iostrata.trace import Extent, File, Trace, inode_numbers

CALLS: Final = ("syscall", "aio_submit", "io_uring_submit_req")
MINOR_BITS: Final = 20
NOWHERE: Final = -1
OWN: Final = -2
"""Of a place that is the image's own: its tables."""
DISPUTED: Final = -3
"""Of a place that was one block's before, and another's after."""


def placed_by(serves: Serves, lower: Trace) -> Serves:
    """What was written to images that are not raw, or read of them, at its place on the guest's
    disk, if that is known: nothing else has a key.

    What an image writes of its own tables is for whatever is made durable meanwhile. Where room was
    made in one that is not known, is nowhere; in raw ones nothing tells what for.
    """
    key, offset, size = serves.key.copy(), serves.offset_bytes.copy(), serves.size_bytes.copy()
    shared = serves.shared.copy()
    images = image_files_of(lower).items()
    for group, file, mark in ((*one, mark) for one in images for mark in (0, int(READ_MARK))):
        rows = np.flatnonzero((serves.group == group ^ mark) & ~serves.shared)
        extents = lower.facts.image_maps.get(file, ())
        found = guests_offsets(extents, serves.offset_bytes[rows], serves.size_bytes[rows])
        known = found >= 0
        key[rows] = np.where(known, pair_key(found, serves.size_bytes[rows]) ^ mark, NO_KEY)
        offset[rows] = np.where(known, found, NOWHERE)
        size[rows] = np.where(known, serves.size_bytes[rows], 0)
        shared[rows] = (found == OWN) & (mark == 0)
    for rows, found in _rooms(serves, lower):
        offset[rows] = found
    return replace(serves, key=key, offset_bytes=offset, size_bytes=size, shared=shared)


def _rooms(serves: Serves, lower: Trace) -> Iterator[tuple[Ints, Ints]]:
    rooms = np.flatnonzero(serves.key == ROOM_KEY)
    yield rooms, np.full(len(rooms), NOWHERE)
    for group, file in image_files_of(lower).items():
        rows = rooms[serves.group[rooms] == group ^ ROOM_MARK]
        extents = lower.facts.image_maps.get(file, ())
        yield rows, guests_offsets(extents, serves.offset_bytes[rows], serves.size_bytes[rows])


def guests_offsets(extents: Sequence[Extent], place: Ints, size: Ints) -> Ints:
    """Where on the guest's disk ranges of an image's file are, or one of the above.

    An image is told of several times. What it was told to have at one of them it had until
    another told something else: then nothing tells when that changed.
    """
    found = np.full(len(place), NOWHERE)
    for _, some in groupby(sorted(extents, key=_order), lambda extent: extent.time_ns):
        told = _looked_up([*some], place, size)
        other = (found != NOWHERE) & (told != NOWHERE) & (found != told)
        found = np.where(other, DISPUTED, np.where(found == NOWHERE, told, found))
    return found


def _order(extent: Extent) -> tuple[int, int]:
    return extent.time_ns, extent.place_bytes


def _looked_up(extents: Sequence[Extent], place: Ints, size: Ints) -> Ints:
    """In a map of one time, in order of places."""
    begin = np.array([extent.place_bytes for extent in extents], np.int64)
    end = begin + np.array([extent.size_bytes for extent in extents], np.int64)
    offset = np.array([extent.offset_bytes for extent in extents], np.int64)
    row = np.searchsorted(begin, place, side="right") - 1
    inside = (row >= 0) & (place + size <= end[row])
    told = np.where(offset[row] < 0, OWN, offset[row] + place - begin[row])
    return np.where(inside, told, NOWHERE)


def image_files_of(lower: Trace) -> dict[int, File]:
    """The file of each group of serves that is an image, but of raw ones."""
    images = lower.facts.images
    if not images:
        return {}
    found: dict[int, File] = {}
    for point in CALLS:
        files = columns_of(lower.points[point], "inode", "dev")
        pairs = np.unique(np.stack([files["inode"], files["dev"]]), axis=1)
        own = integers(inode_numbers(lower.facts, pairs[1], pairs[0]))
        groups = pair_key(pairs[0], pairs[1])
        for group, inode, dev in zip(groups.tolist(), own.tolist(), pairs[1].tolist(), strict=True):
            same = (file for file in images if file[1] == inode and _same(file[0], dev))
            if file := next(same, None):
                found[group] = file
    return found


def unplaced(lower: Trace, who: str) -> str:
    """What to say of images that something was written to, of which nothing tells what is where.

    Empty: there is none. ``who``: writes by them.
    """
    facts = lower.facts
    unknown = {*image_files_of(lower).values()} - facts.image_maps.keys()
    which = " or ".join(sorted({facts.images[file] for file in unknown}))
    return which and f"where in it an image of {which} keeps what {who} writes is not known"


def over_others(link: Link) -> bool:
    """Whether an image that a guest's disks are in is over another one: what is written of a
    cluster for the first time is read there first."""
    lower = link.lower.trace
    backed = lower.facts.backed
    groups = [group for group, file in image_files_of(lower).items() if file in backed]
    served = link.serves.group[link.pairs.serve] if groups else np.zeros(0, np.int64)
    return bool(np.isin(served, groups).any())


def _same(one: int, other: int) -> bool:
    """stat(2) has a number for each subvolume of a btrfs, and events one for all."""
    return one == other or not one >> MINOR_BITS | other >> MINOR_BITS
