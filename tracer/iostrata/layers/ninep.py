# SPDX-License-Identifier: Apache-2.0
"""A file system by 9p, such as a directory that QEMU shares with its guest."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility

NINEP: Final = Declaration(
    rows=(
        Row(
            "ninep.call",
            "file server",
            "9p request made until its answer: whoever serves it, and all below",
            ("ninep_request", "sched_resume"),
            "the file's server, or what is below it; of a directory that QEMU shares, record the "
            "host as well to tell them apart. What neither writes nor makes durable stays here.",
            "#3949ab",
            "host",
        ),
    ),
    ranks=(Rank("ninep.call", "ninep.call", Depth.AWAY, wakes=True, asks=True),),
    programs=(Programs("ninep", frozenset({"9p"})),),
    visibility=(
        Visibility(
            "ninep",
            ("ninep",),
            "the time of a file system by 9p is unattributed",
            absent="9p is not loaded here, or has no BTF (before Linux 5.11): mount before "
            "recording",
        ),
    ),
)
