# SPDX-License-Identifier: Apache-2.0
"""tgtd, a target of iSCSI in user space: the way to its system calls and back."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row

TGT: Final = Declaration(
    rows=(
        Row(
            "tgt.there",
            "network",
            "sent until tgtd's first system call for it",
            ("iscsi_sent", "syscall"),
            "the way to the target; data that it asks for first (R2T); or tgtd is late: one thread "
            "receives for all, others (`nr_iothreads`) carry out.",
            "#c5cae9",
            "net",
        ),
        Row(
            "tgt.server",
            "OS",
            "between two system calls of tgtd's for one command",
            ("syscall",),
            "its thread, which syncs behind a write (FUA, no write cache), has no CPU.",
            "#3f51b5",
            "net",
        ),
        Row(
            "tgt.back",
            "network",
            "tgtd's last system call until the answer was there, a read's with its data",
            ("syscall", "iscsi_answered"),
            "tgtd is late to answer: its one thread that sends has no CPU, or others to answer; or "
            "the way back.",
            "#8c9eff",
            "net",
        ),
    ),
    ranks=(
        Rank("tgt.server", "tgt.server", Depth.WAY),
        Rank("tgt.there", "tgt.there", Depth.WAY),
        Rank("tgt.back", "tgt.back", Depth.WAY),
    ),
)
