# SPDX-License-Identifier: Apache-2.0
"""Trace: the numbers that events have for files in, the files' own and their subvolumes' out.

A btrfs has one superblock, and each of its subvolumes numbers its files anew: there an event's
number, which is another one for each file, holds that of the subvolume as well.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, distinct
from iostrata.trace.facts import Facts

SUBVOLUME_SHIFT: Final = 40
"""As in bpf/events.h."""


def inode_numbers(facts: Facts, device_key: Ints, inode: Ints) -> Ints:
    """What stat(2) says of these files."""
    shared = _have_subvolumes(facts, device_key)
    return np.where(shared, inode & ((1 << SUBVOLUME_SHIFT) - 1), inode) if shared.any() else inode


def untold_subvolumes(facts: Facts, device_key: Ints, inode: Ints) -> NDArray[np.bool_]:
    """Of which files it is not known in which of several subvolumes they are."""
    untold: NDArray[np.bool_] = (inode > 0) & (inode >> SUBVOLUME_SHIFT == 0)
    return untold & _have_subvolumes(facts, device_key)


def _have_subvolumes(facts: Facts, device_key: Ints) -> NDArray[np.bool_]:
    keys = [key for key in distinct(device_key).tolist() if facts.file_system(key) == "btrfs"]
    return np.isin(device_key, keys)
