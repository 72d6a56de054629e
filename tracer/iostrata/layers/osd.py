# SPDX-License-Identifier: Apache-2.0
"""An OSD of Ceph: a client's operation, or one for a copy, and what it waits for."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility

HOP: Final = "ceph"

OSD: Final = Declaration(
    rows=(
        Row(
            "osd.queue",
            "OS",
            "message there until a thread of the OSD took the operation up",
            ("sched_resume", "osd_message", "osd_work"),
            "the OSD's threads are at other operations (`osd op num threads per shard`, `ms async "
            "op threads`), or others of the same object or placement group are before it.",
            "#b2dfdb",
            "net",
        ),
        Row(
            "osd.op",
            "OS",
            "with the OSD, waiting neither for its store nor for the copies",
            ("osd_work", "osd_reply", "osd_send", "osd_written"),
            "the OSD computes (checksums, its maps), its CPU is busy, or the thread that is to "
            "answer, or to send that, or to read what another OSD answers, is late.",
            "#5cc2b5",
            "net",
        ),
        Row(
            "osd.replicas",
            "beyond",
            "with the OSDs that keep the copies, or parts of it, until the last one answered",
            ("osd_send", "osd_message", "osd_work", "osd_reply", "osd_written"),
            "the network between the OSDs, or the slowest of the others; record their machines as "
            "well to tell them apart (with erasure coding, or below a cache tier, they cannot be).",
            "#00695c",
            "net",
        ),
    ),
    ranks=(
        Rank("osd.queue", "osd.queue", Depth.WAY),
        Rank("osd.op", "osd.op", Depth.FLOOR),
        Rank("osd.replicas", "osd.replicas", Depth.AWAY, wakes=True, asks=True),
        # Of what others do for it, nothing else is told.
        Rank("osd.elsewhere", "osd.replicas", Depth.AWAY, untold=True),
        # An answer for a copy is there, and nobody has read it.
        Rank("osd.heard", "osd.op", Depth.CARRIED, of_upper=True),
    ),
    programs=(Programs("osd", serves=HOP),),
    visibility=(
        Visibility(
            "osd",
            ("osd",),
            "what this machine's OSDs of Ceph do is not seen",
            absent="no ceph-osd runs here",
            role="server",
        ),
    ),
)
