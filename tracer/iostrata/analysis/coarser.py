# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: of a trace that bpftrace's script made, what only the recorder would tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iostrata.layers import BEFORE_REQUESTS
from iostrata.model import NotObserved
from iostrata.trace import UNSEEN_CALLS, Trace, by_script
from iostrata.trace.layout import CALL_MSYNC

ASYNCHRONOUS: Final = ("io_uring_enter", "io_submit")
COPIES: Final = ("sendfile64", "splice", "copy_file_range")


def coarser(trace: Trace) -> Iterator[NotObserved]:
    """Nothing of what the recorder made."""
    if not by_script(trace.env):
        return
    within, _ = BEFORE_REQUESTS
    yield NotObserved("block.Q2G to I2D", "not by bpftrace's script", within)
    what = "not by bpftrace's script: what they did for a write"
    yield NotObserved("kernel workers", what, "block.Q2D and unattributed")
    if CALL_MSYNC in trace.points["syscall"].values("call"):
        yield NotObserved("files of msync", "not by bpftrace's script", "")
    yield NotObserved("bpftrace", "when it has a writer's CPU: that is in any row", "")
    if any(mount.file_system == "xfs" for mount in trace.facts.mounts) and len(
        trace.points["xfs_file_fsync"]
    ):
        yield NotObserved("XFS's log", "not by bpftrace's script", "fs and unattributed")
    yield NotObserved("pointers", "bpftrace's script ties requests by their places on the disk", "")
    for names, what in (
        (ASYNCHRONOUS, "their writes are not analysed"),
        (COPIES, "what they wrote is in no write's size"),
    ):
        calls = {name: trace.env.get(f"{UNSEEN_CALLS}{name}", 0) for name in names}
        told = [f"{name} ({n})" for name, n in calls.items() if n]
        if told:
            yield NotObserved(", ".join(told), f"only counted by bpftrace's script: {what}", "")
