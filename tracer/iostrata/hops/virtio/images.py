# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: what a host served in, the same without the places that are an image's own out.

Of a raw image a place in the file is the guest's. Other formats keep what is written where they
have room: there the guest may have another block, whose place is taken for none of this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import columns_of, pair_key
from iostrata.hops.hop import Serves
from iostrata.hops.translation import NO_KEY
from iostrata.trace import Trace, inode_numbers

CALLS: Final = ("syscall", "aio_submit", "io_uring_submit_req")
MINOR_BITS: Final = 20


def placed_by(serves: Serves, lower: Trace) -> Serves:
    """What was written to an image that is not raw has no key and no place that a guest knows."""
    moved = np.isin(serves.group, list(formats_of(lower)))
    return replace(
        serves,
        key=np.where(moved, NO_KEY, serves.key),
        size_bytes=np.where(moved, 0, serves.size_bytes),
    )


def formats_of(lower: Trace) -> dict[int, str]:
    """The format of each group of serves that is an image, but of raw ones."""
    images = lower.facts.images
    if not images:
        return {}
    found: dict[int, str] = {}
    for point in CALLS:
        files = columns_of(lower.points[point], "inode", "dev")
        pairs = np.unique(np.stack([files["inode"], files["dev"]]), axis=1)
        own = inode_numbers(lower.facts, pairs[1], pairs[0])
        groups = pair_key(pairs[0], pairs[1])
        for group, inode, dev in zip(groups.tolist(), own.tolist(), pairs[1].tolist(), strict=True):
            kinds = (
                kind
                for (device, number), kind in images.items()
                if number == inode and _same(device, dev)
            )
            if kind := next(kinds, ""):
                found[group] = kind
    return found


def _same(one: int, other: int) -> bool:
    """stat(2) has a number for each subvolume of a btrfs, and events one for all."""
    return one == other or not one >> MINOR_BITS | other >> MINOR_BITS
