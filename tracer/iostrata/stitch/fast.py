# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: fast commits of ext4 in, the bios of their logs out.

Whoever syncs writes data first, that of other files too, and waits for it; then it queues the
fast commit's blocks, a bio each, with no flag that tells them from data, and waits for them
(fs/ext4/fast_commit.c). The point at the end has how many they were.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, order_of, ranges
from iostrata.stitch.bios import Bios
from iostrata.stitch.window import Window


def of_fast_commits(window: Window, bios: Bios) -> NDArray[np.bool_]:
    """Which bios are, or came of, the last ones that a thread queued for a fast commit."""
    found = np.zeros(len(bios), np.bool_)
    ended = window.columns("ext4_fc_commit_stop", "tid", "block_count")
    if not len(ended["tid"]):
        return found
    written = np.flatnonzero((bios.parent < 0) & (bios.size_bytes > 0) & ~bios.read)
    if not len(written):
        return found
    written = written[order_of(bios.tid[written], bios.queue_ns[written])]
    tid = bios.tid[written]
    last = AsOf(tid, bios.queue_ns[written]).at_or_before(ended["tid"], ended["time_ns"])
    first = np.searchsorted(tid, ended["tid"])
    count = np.where(last >= 0, np.minimum(ended["block_count"], last - first + 1), 0)
    found[written[np.repeat(last - count + 1, count) + ranges(count)]] = True
    return bios.of_root(found)
