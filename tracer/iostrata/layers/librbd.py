# SPDX-License-Identifier: Apache-2.0
"""Disks of Ceph that a program reaches by itself (librbd): a request, and its operations."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility

LIBRBD: Final = Declaration(
    rows=(
        Row(
            "librbd",
            "OS",
            "with the library of a disk of Ceph, none of whose operations is on its way",
            (
                "librbd_image",
                "librbd_request",
                "librbd_sent",
                "librbd_sent_read",
                "librbd_answered",
                "librbd_done",
            ),
            "the library's threads (io_context_pool, msgr-worker) have no CPU, or are at other "
            "requests.",
            "#dce775",
            "queue",
        ),
    ),
    ranks=(
        Rank("librbd", "librbd", Depth.FLOOR),
        # An answer is there, and nobody has read it.
        Rank("librbd.heard", "librbd", Depth.CARRIED, of_upper=True),
    ),
    programs=(Programs("librbd", library=True),),
    visibility=(
        Visibility(
            "librbd",
            ("librbd",),
            "the time of a guest's disk of Ceph cannot be told from that of its OSDs",
            absent="no program runs here that has a disk of Ceph for others by itself",
        ),
    ),
)
