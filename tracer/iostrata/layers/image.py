# SPDX-License-Identifier: Apache-2.0
"""A guest's image that has its file grow, or keeps what is where in tables of its own."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row

IMAGE: Final = Declaration(
    rows=(
        Row(
            "image.allocate",
            "OS",
            "in the VMM's call that makes room in a guest's image (fallocate)",
            ("syscall",),
            "the guest writes where its image (qcow2) has no cluster yet, and the host's file "
            "system is slow to find room. Preallocate the image.",
            "#80deea",
            "cpu",
            cause="in the image's tables",
        ),
    ),
    # In the place of the call itself, of which it is told what it is for.
    ranks=(Rank("image.allocate", "image.allocate", Depth.FLOOR, instead_of="syscall"),),
)
