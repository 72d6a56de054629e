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
            "sent until the first system call of nbd-server's process",
            ("nbd_payload_sent", "syscall"),
            "the way to the server, or the server's process is late to take the request up.",
            "#c5e1a5",
            "net",
        ),
        Row(
            "nbd.back",
            "network",
            "the last system call of nbd-server's process until the reply's begin",
            ("syscall", "nbd_header_received"),
            "the server's process is late to answer, or the way back.",
            "#dcedc8",
            "net",
        ),
        Row(
            "nbd.send",
            "OS",
            "issued until sent to the network block device's server",
            ("block_rq_issue", "nbd_payload_sent"),
            "the connection takes no more: its send buffer is full, or many requests share it "
            "(nbd-client -C).",
            "#9ccc65",
            "queue",
        ),
        Row(
            "nbd.call",
            "beyond",
            "sent until the reply's begin: network and server",
            ("nbd_payload_sent", "nbd_header_received"),
            "the network or the server; record the server as well to tell them apart.",
            "#33691e",
            "net",
        ),
        Row(
            "nbd.reply",
            "OS",
            "the reply's begin until the request was complete",
            ("nbd_header_received", "block_rq_complete"),
            "the client's receiving worker is late: its CPU is busy.",
            "#689f38",
            "queue",
        ),
    ),
    ranks=(
        Rank("nbd.there", "nbd.there", Depth.WAY),
        Rank("nbd.back", "nbd.back", Depth.WAY),
        Rank("nbd.send", "nbd.send", Depth.CARRIED),
        Rank("nbd.call", "nbd.call", Depth.CARRIED),
        Rank("nbd.reply", "nbd.reply", Depth.CARRIED),
    ),
    stages=(
        Stage("nbd.send", ("nbd_payload_sent",)),
        Stage("nbd.call", ("nbd_header_received",)),
        Stage("nbd.reply"),
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
