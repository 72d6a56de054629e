# SPDX-License-Identifier: Apache-2.0
"""The file system's journal, or log."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility

JOURNAL: Final = Declaration(
    rows=(
        Row(
            "journal.start",
            "OS",
            "asleep until the journal thread began the commit",
            ("sched_resume", "jbd2_start_commit", "xlog_iclog_sync"),
            "another commit is still going on, or the journal's superblock is written first.",
            "#ce93d8",
            "journ",
            cause="in journal commits",
            contended=True,
        ),
        Row(
            "journal.locking",
            "OS",
            "commit waits for open handles of the transaction",
            ("jbd2_start_commit", "jbd2_commit_locking", "jbd2_commit_flushing"),
            "other operations hold the transaction open: many small changes of metadata at once.",
            "#ab47bc",
            "journ",
            cause="in journal commits",
            contended=True,
        ),
        Row(
            "journal.flushing",
            "OS",
            "commit writes ordered data, outside the device",
            ("jbd2_commit_flushing", "jbd2_commit_logging"),
            "much dirty data that ordered mode must write first, of this file or of others.",
            "#8e24aa",
            "journ",
            cause="in journal commits",
            contended=True,
        ),
        Row(
            "journal.logging",
            "OS",
            "commit writes log blocks, outside the device",
            ("jbd2_commit_logging", "jbd2_end_commit", "xlog_iclog_sync", "xlog_iclog_sync_done"),
            "large transactions: many blocks of metadata in each commit.",
            "#6a1b9a",
            "journ",
            cause="in journal commits",
            contended=True,
        ),
    ),
    ranks=(
        Rank("journal.start", "journal.start", Depth.JOURNAL),
        Rank("journal.locking", "journal.locking", Depth.JOURNAL, wakes=True),
        Rank("journal.flushing", "journal.flushing", Depth.JOURNAL, wakes=True),
        Rank("journal.logging", "journal.logging", Depth.JOURNAL, wakes=True),
        Rank("lower.journal.start", "journal.start", Depth.UNDER),
        Rank("lower.journal.locking", "journal.locking", Depth.UNDER),
        Rank("lower.journal.flushing", "journal.flushing", Depth.UNDER),
        Rank("lower.journal.logging", "journal.logging", Depth.UNDER),
        Rank("lower.lower.journal.start", "journal.start", Depth.BELOW),
        Rank("lower.lower.journal.locking", "journal.locking", Depth.BELOW),
        Rank("lower.lower.journal.flushing", "journal.flushing", Depth.BELOW),
        Rank("lower.lower.journal.logging", "journal.logging", Depth.BELOW),
    ),
    # A journal may be another file system's, too.
    programs=(Programs("journal", frozenset({"ext4", "ext3", "ocfs2"})),),
    visibility=(
        Visibility("journal", ("journal",), "journal waits are shown as unattributed"),
        Visibility("data", ("data",), "whose data kernel threads write is not told (--who)"),
    ),
)
