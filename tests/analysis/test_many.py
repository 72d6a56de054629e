# SPDX-License-Identifier: Apache-2.0
"""Recordings with more of something than usual."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from tests.builder import TraceBuilder
from tests.synthetic import CALLS, device

DISK = device(253, 0)


def test_each_of_40000_processes_has_its_own_name(tmp_path: Path) -> None:
    builder, count = TraceBuilder().block(DISK, "vda"), 40_000
    tids = np.arange(count) + 1_000
    begin = 1_000_000 + np.arange(count) * 10_000
    for tid in tids.tolist():
        builder.add("thread", time_ns=1, cpu=0, tid=tid, tgid=tid, subject_tid=tid, kind=1,
                    comm=b"of %d" % tid)  # fmt: skip
    builder.extend("syscall", time_ns=begin + 5_000, cpu=0, tid=tids, tgid=tids, enter_ns=begin,
                   dev=DISK, call=CALLS["fsync"])  # fmt: skip
    builder.write(tmp_path / "machine")
    writes = analyse(open_recording(tmp_path / "machine")).writes
    names = [writes.names["process"][code] for code in writes.codes["process"].tolist()]
    assert names == [f"of {tid} ({tid})" for tid in tids.tolist()]
