# SPDX-License-Identifier: Apache-2.0
"""Disks of Ceph (rbd): a request of theirs, which is one operation on an object or several."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Programs, Stage, Visibility

RBD: Final = Declaration(
    stages=(
        Stage("initiator.submit", ("rbd_sent", "rbd_message")),
        Stage("initiator.call", ("rbd_answered",)),
        Stage("initiator.complete"),
    ),
    programs=(Programs("rbd", disk="rbd"),),
    visibility=(
        Visibility(
            "rbd",
            ("rbd",),
            "the time of a disk of Ceph cannot be told from that of its OSDs",
            absent="rbd is not loaded with BTF: map the image before recording, what comes later "
            "is not seen",
        ),
    ),
)
