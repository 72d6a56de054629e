# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls in, the reads among them out: each is a unit of its own."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of
from iostrata.stitch.account import serving
from iostrata.stitch.calls import METHOD, Pieces, Reads, Units
from iostrata.stitch.requests import reads_data
from iostrata.trace import Trace
from iostrata.trace.layout import CALL_PREADV2, CALL_READ

OPEN_OF_DEVICE: Final = 0x40000000
"""Of the recorder: a block device's node (events.h)."""
# What programs for this processor are told by their system's headers (asm/fcntl.h).
O_DIRECT: Final = {"aarch64": 0o200000}
O_DIRECT_ELSEWHERE: Final = 0o40000
AT_THE_END: Final = "nothing left to read: the file's end"


def reads_of(trace: Trace) -> tuple[Units, Pieces, Reads, Counter[str]]:
    """Each call that read anything, or failed. Also how many did neither, and why."""
    calls = columns_of(
        trace.points["syscall"], "enter_ns", "call", "tid", "tgid", "dev", "inode", "open_flags",
        "result", "offset_bytes",
    )  # fmt: skip
    mine = (calls["call"] >= CALL_READ) & (calls["call"] <= CALL_PREADV2)
    mine &= ~np.isin(calls["tgid"], serving(trace))
    nothing = mine & (calls["result"] == 0)
    rows = np.flatnonzero(mine & ~nothing)
    units, reads = _units(trace, {name: column[rows] for name, column in calls.items()})
    pieces = Pieces(
        np.arange(len(rows)), units.tid, units.begin_ns, units.end_ns, units.device_key,
        np.zeros(len(rows), np.int64),
    )  # fmt: skip
    count = int(np.count_nonzero(nothing))
    return units, pieces, reads, Counter({AT_THE_END: count} if count else {})


def _units(trace: Trace, calls: dict[str, Ints]) -> tuple[Units, Reads]:
    begin, end, flags = calls["enter_ns"], calls["time_ns"], calls["open_flags"]
    size = np.maximum(calls["result"], 0)
    direct = (flags & O_DIRECT.get(str(trace.env.get("architecture")), O_DIRECT_ELSEWHERE)) != 0
    none, one = np.zeros(len(begin), np.int64), np.ones(len(begin), np.int64)
    units = Units(
        begin_ns=begin,
        end_ns=end,
        latency_ns=end - begin,
        tid=calls["tid"],
        tgid=calls["tgid"],
        size_bytes=size,
        durable_writes=none,
        pieces=one,
        device_key=calls["dev"],
        inode=calls["inode"],
        offset_bytes=calls["offset_bytes"],
        method=np.where(direct, METHOD["read_direct"], METHOD["read"]),
        engine=none,
        failed=calls["result"] < 0,
        since_ns=begin,
    )
    inode = np.where((flags & OPEN_OF_DEVICE) != 0, 0, calls["inode"])
    return units, Reads(inode, calls["offset_bytes"], size, direct, _longest(trace))


def _longest(trace: Trace) -> int:
    """The longest life of a bio that reads a file's data, ns."""
    queued = columns_of(trace.points["block_bio_queue"], "bio_key", "flags")
    ends = [
        columns_of(trace.points[point], "bio_key")
        for point in ("block_rq_complete", "block_bio_complete")
    ]
    done = {name: np.concatenate([one[name] for one in ends]) for name in ("time_ns", "bio_key")}
    begin, until = queued["time_ns"], AsOf(queued["bio_key"], queued["time_ns"]).following()
    found = AsOf(done["bio_key"], done["time_ns"]).at_or_after(queued["bio_key"], begin)
    end = at(done["time_ns"], found)
    mine = reads_data(queued["flags"]) & (end >= 0) & (end < until)
    return int((end - begin)[mine].max(initial=0))
