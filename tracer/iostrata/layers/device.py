# SPDX-License-Identifier: Apache-2.0
"""The lowest device that was recorded."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row, Visibility

DEVICE: Final = Declaration(
    rows=(
        Row(
            "device.data",
            "device",
            "issued to completed: the data, and metadata that is not marked (FAT, ext2)",
            ("block_rq_issue", "block_rq_complete", "block_rq_requeue"),
            "the disk is slower, its queue is longer, or requests are larger. On a virtual disk "
            "all that is below it.",
            "#1e88e5",
            "data",
            contended=True,
        ),
        Row(
            "device.read",
            "device",
            "issued to completed: data read; of a write, that of which it changes a part",
            ("block_rq_issue", "block_rq_complete", "block_rq_requeue"),
            "writes change parts of pages that are not cached: write whole ones, at multiples of "
            "their size. Or what is copied (sendfile, copy_file_range) is not cached. Of reads: "
            "what they read is not cached, and was not read ahead.",
            "#90caf9",
            "data",
            contended=True,
        ),
        Row(
            "device.readahead",
            "device",
            "until data was read that was on its way already: asked for by another read",
            ("block_rq_issue", "block_rq_complete", "block_bio_file"),
            "the program reads one part of a file after the other faster than the disk: readahead "
            "is behind (`read_ahead_kb`). Or several read the same at once.",
            "#bbdefb",
            "data",
            contended=True,
        ),
        Row(
            "device.meta",
            "device",
            "issued to completed: metadata read, written past the journal; discards",
            ("block_rq_issue", "block_rq_complete", "block_rq_requeue"),
            "metadata is read that is not cached, or written outside the journal; or the file "
            "system is mounted with discard, and the disk is slow to take note of what was freed.",
            "#4dd0e1",
            "data",
            contended=True,
        ),
        Row(
            "device.image",
            "device",
            "issued to completed: the tables of a guest's image (qcow2), past the page cache",
            ("block_rq_issue", "block_rq_complete", "syscall"),
            "the guest writes where its image has no room yet, and flushes: tables and counts of "
            "references are written whole, with a sync between them. Preallocate the image "
            "(`qemu-img create -o preallocation=metadata`), or use a raw one.",
            "#00838f",
            "data",
            cause="in the image's tables",
            contended=True,
        ),
        Row(
            "device.journal",
            "device",
            "issued to completed: journal blocks",
            ("block_rq_issue", "block_rq_complete", "block_rq_requeue"),
            "files grow or change their metadata with each write: preallocate, overwrite, use "
            "fdatasync; or put the journal on a faster disk.",
            "#26a69a",
            "journ",
            cause="in journal commits",
            contended=True,
        ),
        Row(
            "device.flush",
            "device",
            "issued to completed: cache flush",
            ("block_rq_issue", "block_rq_complete"),
            "the disk's cache is volatile and full. A disk with FUA or a protected cache needs "
            "none: see `iostrata doctor`.",
            "#5c6bc0",
            "flush",
            contended=True,
        ),
    ),
    ranks=(
        Rank("timed.data", "device.data", Depth.BY_TIME, wakes=True),
        Rank("timed.meta", "device.meta", Depth.BY_TIME, wakes=True),
        Rank("timed.flush", "device.flush", Depth.BY_TIME, wakes=True),
        Rank("device.readahead", "device.readahead", Depth.DEVICE, wakes=True, asks=True),
        Rank("device.read", "device.read", Depth.DEVICE, wakes=True, asks=True),
        Rank("device.flush", "device.flush", Depth.DEVICE, wakes=True, asks=True),
        Rank("device.meta", "device.meta", Depth.DEVICE, wakes=True, asks=True),
        Rank("device.image", "device.image", Depth.DEVICE, instead_of="device.data"),
        Rank("device.journal", "device.journal", Depth.DEVICE, wakes=True, asks=True),
        Rank("device.data", "device.data", Depth.DEVICE, wakes=True, asks=True),
    ),
    visibility=(
        Visibility(
            "device",
            (),
            "the device's time is not seen",
            programs=("block_rq_issue", "block_rq_complete"),
            needed=True,
        ),
    ),
)
