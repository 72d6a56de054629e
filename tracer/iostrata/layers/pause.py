# SPDX-License-Identifier: Apache-2.0
"""The kernel lets a thread sleep for a time of its own choice."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row, Visibility

PAUSE: Final = Declaration(
    rows=(
        Row(
            "pause",
            "OS",
            "asleep for a set time, which a timer ended: it, or whom it waits for",
            ("sched_resume",),
            "the kernel waits on purpose: for others to join a commit (btrfs, ext4's "
            "`max_batch_time`), as more is dirty than may be (`vm.dirty_bytes`, a disk's "
            "`max_bytes` in /sys/class/bdi), or before it looks again (F2FS's checkpoints).",
            "#f48fb1",
            "journ",
        ),
    ),
    # What it is told to have slept for is deeper.
    ranks=(
        Rank("pause", "pause", Depth.LOCK),
        Rank("lower.pause", "pause", Depth.UNDER),
        Rank("lower.lower.pause", "pause", Depth.BELOW),
    ),
    visibility=(
        Visibility("pause", ("pause",), "sleeps that the kernel ends by a timer are unattributed"),
    ),
)
