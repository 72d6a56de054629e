# SPDX-License-Identifier: Apache-2.0
"""Threads of the workload that wait for each other."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row

LOCK: Final = Declaration(
    rows=(
        Row(
            "lock",
            "OS",
            "asleep while another thread, which let go, ran: of the workload, on btrfs any",
            ("sched_resume", "btrfs_beside"),
            "threads of the workload write to one file or directory: they wait for each other, "
            "not for the disk. On btrfs, where who syncs writes the log for all, they wait for "
            "whoever syncs there, recorded or not, or commits the transaction (a snapshot's).",
            "#c2185b",
            "journ",
            contended=True,
        ),
    ),
    ranks=(
        Rank("lock", "lock", Depth.LOCK),
        Rank("lower.lock", "lock", Depth.UNDER),
        Rank("lower.lower.lock", "lock", Depth.BELOW),
    ),
)
