# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: copies on XFS that count as plain, where nothing tells whether they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iostrata.columns import Containing, columns_of, distinct
from iostrata.model import NotObserved
from iostrata.stitch import PLAIN, method_of_write
from iostrata.trace import Trace
from iostrata.trace.layout import CALL_COPY_FILE_RANGE


def doubtful_copies(trace: Trace) -> Iterator[NotObserved]:
    """XFS forces its log where the file that is shared is synchronous (xfs_file_remap_range, of
    fs/xfs/xfs_file.c): which file that is, no call tells, and room may be made in the log, too."""
    waited = columns_of(trace.points["xlog_iclog_wait_on"], "tid")
    if not len(waited["tid"]):
        return
    calls = columns_of(trace.points["syscall"], "tid", "enter_ns", "call", "open_flags", "result")
    copies = (calls["call"] == CALL_COPY_FILE_RANGE) & (calls["result"] > 0)
    copies &= method_of_write(calls["open_flags"], np.zeros(len(copies), np.int64)) == PLAIN
    rows = np.flatnonzero(copies)
    during = Containing(calls["tid"][rows], calls["enter_ns"][rows], calls["time_ns"][rows])
    found = during.find(waited["tid"], waited["time_ns"])
    if count := len(distinct(found[found >= 0])):
        of = "one call" if count == 1 else f"{count} calls"
        what = f"{of} waited for the log, so it may be durable: not taken for synchronous"
        yield NotObserved("copy_file_range on XFS", what, "")
