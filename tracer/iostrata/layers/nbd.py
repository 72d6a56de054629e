# SPDX-License-Identifier: Apache-2.0
"""Network block devices: what a request of theirs spends on its way to the server and back."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Stage, Visibility

NBD: Final = Declaration(
    rows=(
        Row(
            "nbd.there",
            "network",
            "sent until the first system call of the server's process for it",
            ("nbd_payload_sent", "syscall"),
            "the way to the server, or the server's process is late to take the request up.",
            "#c5e1a5",
            "net",
        ),
        Row(
            "nbd.server",
            "OS",
            "between two system calls of the server's process for one request",
            ("syscall",),
            "qemu-nbd's one thread, which has its pool's threads carry out one call after the "
            "other, or a thread of nbd-server's that syncs behind a write, is busy or has no CPU.",
            "#827717",
            "net",
        ),
        Row(
            "nbd.back",
            "network",
            "the server's last system call until the reply's begin, or a read's end",
            ("syscall", "nbd_header_received", "nbd_payload_received"),
            "the server's process is late to answer, or the way back; of reads with their data.",
            "#dcedc8",
            "net",
        ),
    ),
    ranks=(
        Rank("nbd.server", "nbd.server", Depth.WAY),
        Rank("nbd.there", "nbd.there", Depth.WAY),
        Rank("nbd.back", "nbd.back", Depth.WAY),
    ),
    stages=(
        Stage("initiator.submit", ("nbd_payload_sent",)),
        Stage("initiator.call", ("nbd_header_received", "nbd_payload_received")),
        Stage("initiator.complete"),
    ),
    programs=(Programs("nbd", disk="nbd"),),
    visibility=(
        Visibility(
            "nbd",
            ("nbd",),
            "a network block device's time cannot be told from the driver's",
            absent="NBD is not loaded: this machine has no network block device",
        ),
    ),
)
