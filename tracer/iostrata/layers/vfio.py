# SPDX-License-Identifier: Apache-2.0
"""A disk that a guest has as its own (VFIO), past its host."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility

VFIO: Final = Declaration(
    rows=(
        Row(
            "vfio.device",
            "device",
            "a guest's own disk: issued there until its interrupt reached the host",
            ("block_rq_issue", "vfio_interrupt"),
            "the disk is slower, or its queue is longer. The guest tells it without the host, "
            "which is where that stops being quick: the IOMMU, a page that is not mapped. When the "
            "disk was told, no machine sees.",
            "#0d47a1",
            "data",
        ),
    ),
    # Whether a virtual CPU runs does not matter to it.
    ranks=(Rank("vfio.device", "vfio.device", Depth.WAY),),
    programs=(Programs("vfio", serves="vfio"),),
    visibility=(
        Visibility(
            "vfio",
            ("vfio",),
            "what a guest's own disk took cannot be told from its interrupt's way into the guest",
            absent="vfio-pci is not loaded with BTF: no machine here has a device of its own",
            role="host",
        ),
    ),
)
