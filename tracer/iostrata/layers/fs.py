# SPDX-License-Identifier: Apache-2.0
"""The file system's sync of a file."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility

FS: Final = Declaration(
    rows=(
        Row(
            "fs",
            "OS",
            "in the file system's sync, outside journal and block layer",
            (
                "ext4_sync_file",
                "xfs_file_fsync",
                "btrfs_sync_file",
                "nfs_sync_file",
                "blkdev_fsync",
            ),
            "the file system's own work on the CPU: many extents, allocation, checksums, "
            "compression.",
            "#5f6b7a",
            "cpu",
        ),
    ),
    ranks=(Rank("fs", "fs", Depth.WORK),),
    # Journals are the journal layer's, but where ext4 is mounted its sync is seen here.
    programs=(
        Programs("fs", frozenset({"ext4"})),
        Programs("xfs", frozenset({"xfs"})),
        Programs("btrfs", frozenset({"btrfs"})),
    ),
    visibility=(
        Visibility(
            "fs", ("fs", "xfs", "btrfs"), "time in the file system's sync is shown as syscall"
        ),
    ),
)
