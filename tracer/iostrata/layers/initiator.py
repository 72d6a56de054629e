# SPDX-License-Identifier: Apache-2.0
"""The near side of a disk that another machine serves: what a request spends on its way there.

Which points say so is each transport's own: its declaration has the stages.
"""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row

INITIATOR: Final = Declaration(
    rows=(
        Row(
            "initiator.submit",
            "OS",
            "issued until handed to the connection to who serves the disk",
            (
                "block_rq_issue",
                "nbd_payload_sent",
                "nvme_tcp_send",
                "iscsi_sent",
                "rbd_sent",
                "rbd_message",
            ),
            "the connection takes no more: its send buffer is full, or many requests share it. Or "
            "the worker that sends has no CPU. Or the kernel's rbd asks for something else first: "
            "its objects' map, its lock, what a clone's parent has.",
            "#9ccc65",
            "queue",
        ),
        Row(
            "initiator.call",
            "beyond",
            "handed over until its reply was there: the network and who serves the disk",
            (
                "nbd_payload_sent",
                "nbd_header_received",
                "nbd_payload_received",
                "nvme_tcp_send",
                "nvme_complete_rq",
                "iscsi_sent",
                "iscsi_answered",
                "rbd_sent",
                "rbd_answered",
                "librbd_sent",
                "librbd_answered",
            ),
            "the network or the other machine; record that as well to tell them apart.",
            "#33691e",
            "net",
        ),
        Row(
            "initiator.complete",
            "OS",
            "the reply was there until the request was complete",
            (
                "nbd_header_received",
                "nbd_payload_received",
                "nvme_complete_rq",
                "iscsi_answered",
                "rbd_answered",
                "block_rq_complete",
            ),
            "who receives is late: its CPU is busy.",
            "#689f38",
            "queue",
        ),
    ),
    ranks=(
        Rank("initiator.submit", "initiator.submit", Depth.CARRIED),
        Rank("initiator.call", "initiator.call", Depth.CARRIED),
        # Of a program's own library: there is no device's request around it.
        Rank("librbd.call", "initiator.call", Depth.AWAY, asks=True),
        # Its request, where it is not told which operations that is made of.
        Rank("librbd.unknown", "initiator.call", Depth.FLOOR, untold=True),
        Rank("initiator.complete", "initiator.complete", Depth.CARRIED),
    ),
)
