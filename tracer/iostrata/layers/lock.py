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
            "asleep while another thread of the workload, which let go, ran",
            ("sched_resume",),
            "threads of the workload write to one file or directory: they wait for each other, "
            "not for the disk.",
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
