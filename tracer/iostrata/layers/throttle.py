# SPDX-License-Identifier: Apache-2.0
"""Limits: what they keep a write from, although there is room."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row

THROTTLE: Final = Declaration(
    rows=(
        Row(
            "throttle.cpu",
            "OS",
            "runnable, but its group's CPU quota, or its own runtime, is used up",
            ("sched_throttled",),
            "`cpu.max` is too low for what runs in that group: see nr_throttled in its `cpu.stat`; "
            "or a SCHED_DEADLINE thread's runtime (`chrt -d -p PID`) for what it does in a period. "
            "Since Linux 6.18 a quota stops threads behind their calls: a line `not seen  CPU "
            "quota` says for how long.",
            "#6d4c41",
            "wake",
            cause="throttled by a limit",
            contended=True,
        ),
        Row(
            "throttle.io",
            "OS",
            "its control group's limit held back what it asked of a disk",
            ("block_bio_queue", "sched_resume"),
            "`io.max` (or `blkio.throttle.*`) is too low for what that group writes.",
            "#795548",
            "queue",
            cause="throttled by a limit",
            contended=True,
        ),
    ),
    ranks=(
        Rank("handed.throttle.cpu", "throttle.cpu", Depth.HANDED),
        Rank("throttle.cpu", "throttle.cpu", Depth.WAKING),
        Rank("throttle.io", "throttle.io", Depth.QUEUED),
        Rank("lower.handed.throttle.cpu", "throttle.cpu", Depth.BELOW),
        Rank("lower.throttle.cpu", "throttle.cpu", Depth.BELOW),
        Rank("lower.throttle.io", "throttle.io", Depth.BELOW),
        Rank("served.throttle.cpu", "throttle.cpu", Depth.SERVED),
        Rank("done.throttle.cpu", "throttle.cpu", Depth.DONE),
    ),
)
