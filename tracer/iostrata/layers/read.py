# SPDX-License-Identifier: Apache-2.0
"""Reads that no device was asked for: recorded with --op read only."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row, Visibility

READ: Final = Declaration(
    rows=(
        Row(
            "read.cached",
            "OS",
            "on the CPU in a read of which the page cache had all",
            ("syscall", "block_bio_file"),
            "reads are larger, or more of them are served from memory: that is the least that a "
            "read can take. Fewer and larger reads, or a mapping, save calls.",
            "#607d8b",
            "cpu",
        ),
    ),
    ranks=(Rank("read.cached", "read.cached", Depth.FLOOR),),
    visibility=(
        Visibility("reads", ("read",), "system calls that read are not seen", calls=True),
        Visibility(
            "faults",
            ("fault",),
            "page faults of mapped files are no reads: what they ask a disk for is counted",
            calls=True,
        ),
    ),
)
