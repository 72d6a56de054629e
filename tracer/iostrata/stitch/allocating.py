# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls of fallocate on synchronous files in, which of them are durable out.

That is the file system's alone. XFS forces its log behind whatever was done (xfs_file_fallocate).
ext4 awaits the commit of what it allocates for a file that was opened so (ext4_fallocate), and of
what it punches out or moves in one whose inode is synchronous (ext4_punch_hole,
ext4_collapse_range, ext4_insert_range); of zeroes, only of what is less than a block. btrfs
awaits nothing.
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


def durable_allocations(
    facts: Facts, device_key: Ints, mode: Ints, opened: NDArray[np.bool_], inode: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """``opened``: the file was opened with O_DSYNC; ``inode``: it is synchronous by its own."""
    keys = distinct(device_key).tolist()
    kinds = {key: facts.file_system(facts.written_to(int(key))) for key in keys}

    def on(wanted: frozenset[str]) -> NDArray[np.bool_]:
        return one_of(device_key, [key for key in keys if kinds[key] in wanted])

    allocates = (mode & ~KEEP_SIZE) == 0
    moves = (mode & (PUNCH_HOLE | COLLAPSE_RANGE | INSERT_RANGE)) > 0
    as_ext4 = on(AS_EXT4) & ((allocates & opened) | (moves & inode))
    durable: NDArray[np.bool_] = as_ext4 | (on(OF_ANYTHING) & (opened | inode))
    return durable
