# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls of fallocate and ftruncate on synchronous files in, which are durable out.

That is the file system's alone. Of fallocate, XFS forces its log behind whatever was done
(xfs_file_fallocate). ext4 awaits the commit of what it allocates for a file that was opened so
(ext4_fallocate), and of what it punches out or moves in one whose inode is synchronous
(ext4_punch_hole, ext4_collapse_range, ext4_insert_range); of zeroes, only of what is less than a
block. btrfs awaits nothing.

Of ftruncate, ext4 awaits the commit of what ext4_truncate cuts off a synchronous inode, and nothing
where the file grows (ext4_setattr); XFS looks at the mount alone (``sync``: xfs_setattr_size), and
some await nothing at all. "ext2" is mostly ext4's driver without a journal.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, distinct, one_of
from iostrata.trace import Facts

# FALLOC_FL_ of linux/falloc.h
KEEP_SIZE: Final = 0x1
PUNCH_HOLE, COLLAPSE_RANGE, INSERT_RANGE = 0x2, 0x8, 0x20
OF_ANYTHING: Final = frozenset({"xfs"})
AS_EXT4: Final = frozenset({"ext4", "ext3", "unknown"})
EXT4: Final = frozenset({"ext4", "ext3"})
BY_MOUNT: Final = frozenset({"xfs"})
CUT_ANY_TIME: Final = frozenset({"btrfs", "ext2", "f2fs", "jfs"})
"""Where ftruncate of a synchronous inode is durable when something else makes it so."""


def durable_allocations(
    facts: Facts, device_key: Ints, mode: Ints, opened: NDArray[np.bool_], inode: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """``opened``: the file was opened with O_DSYNC; ``inode``: it is synchronous by its own."""
    on = _On(facts, device_key)
    allocates = (mode & ~KEEP_SIZE) == 0
    moves = (mode & (PUNCH_HOLE | COLLAPSE_RANGE | INSERT_RANGE)) > 0
    as_ext4 = on(AS_EXT4) & ((allocates & opened) | (moves & inode))
    durable: NDArray[np.bool_] = as_ext4 | (on(OF_ANYTHING) & (opened | inode))
    return durable


def durable_cuts(facts: Facts, device_key: Ints, grows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which are durable, if they are ftruncate's of a synchronous inode. ``grows``: its file has
    become larger; older recordings did not tell."""
    on = _On(facts, device_key)
    kept: NDArray[np.bool_] = on(CUT_ANY_TIME) | (on(EXT4) & grows)
    kept |= on(BY_MOUNT) & ~on(BY_MOUNT, "sync")
    return ~kept


class _On:
    """Of some file systems, which are of the kinds that are wanted, and mounted with an option."""

    def __init__(self, facts: Facts, device_key: Ints) -> None:
        self.facts, self.device_key = facts, device_key
        self.below = {key: facts.written_to(key) for key in distinct(device_key).tolist()}

    def __call__(self, wanted: frozenset[str], option: str = "") -> NDArray[np.bool_]:
        found = [
            key
            for key, below in self.below.items()
            if self.facts.file_system(below) in wanted
            and (not option or self.facts.is_mounted_with(below, option))
        ]
        return one_of(self.device_key, found)
