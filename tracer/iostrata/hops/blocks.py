# SPDX-License-Identifier: Apache-2.0
"""Hops of disks: a machine's block requests in, what it asked of who serves the disk out."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, pair_key
from iostrata.hops.hop import READ_MARK, Asks
from iostrata.stitch import OP_READ, OP_WRITE, Requests

SECTOR_BYTES: Final = 512


def asks_by_place(
    requests: Requests,
    told_ns: Ints,
    heard_ns: Ints,
    seen: NDArray[np.bool_],
    reads: bool = False,
) -> Asks:
    """The writes and flushes of ``seen``, by their place on the disk; ``reads``: and its reads.

    What else a disk does (zeroes) is no call that is recorded.
    """
    reading = requests.operation == OP_READ
    wanted = requests.flush | (requests.operation == OP_WRITE) | (reading & reads)
    mark = np.where(reading, READ_MARK, 0)
    offset = requests.sector * SECTOR_BYTES
    asks = Asks(
        identity=requests.key,
        begin_ns=requests.issue_ns,
        end_ns=requests.complete_ns,
        key=pair_key(offset, requests.size_bytes) ^ mark,
        group=requests.device_key ^ mark,
        shared=requests.flush,
        told_ns=told_ns,
        heard_ns=heard_ns,
        offset_bytes=offset,
        size_bytes=np.where(requests.flush, 0, requests.size_bytes),
    )
    return asks.rows(np.flatnonzero(seen & wanted))
