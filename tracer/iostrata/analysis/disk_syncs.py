# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, libaio's syncs of disks themselves that nothing tells of out.

A worker of the kernel's that carries one out is known to be at it by what it queues on the disk:
nothing, where all is written and the disk has no cache (blkdev_issue_flush of block/blk-flush.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from iostrata.columns import AsOf, at, columns_of, distinct, one_of
from iostrata.model import NotObserved
from iostrata.stitch import AIO_FDSYNC, AIO_FSYNC, OPEN_OF_DEVICE
from iostrata.trace import Trace

POINT: Final = "blkdev_fsync"


def untold_syncs(
    trace: Trace, shares: Mapping[tuple[str, str], float], of_note: float
) -> Iterator[NotObserved]:
    """``shares``, ``of_note``: as of ``limits``."""
    if not len(trace.points["aio_submit"]) or 1 - sum(shares.values()) < of_note:
        return
    asked = columns_of(
        trace.points["aio_submit"], "iocb_key", "enter_ns", "opcode", "open_flags", "dev"
    )
    told = columns_of(trace.points[POINT], "request_key")
    key, enter_ns = asked["iocb_key"], asked["enter_ns"]
    found = AsOf(told["request_key"], told["time_ns"]).at_or_after(key, enter_ns)
    seen = (found >= 0) & (at(told["time_ns"], found) < AsOf(key, enter_ns).following())
    untold = one_of(asked["opcode"], (AIO_FSYNC, AIO_FDSYNC)) & ~seen
    untold &= (asked["open_flags"] & OPEN_OF_DEVICE) != 0
    if untold.any():
        disks = distinct(asked["dev"][untold]).tolist()
        where = ", ".join(trace.facts.device_name(disk) for disk in disks)
        what = f"when {np.count_nonzero(untold)} of {where} were carried out: "
        if trace.points[POINT].known:
            what += "no worker had to ask for anything there"
        else:
            what += "not by this recorder"
        yield NotObserved("libaio's syncs of disks", what, "unattributed")
