# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: the kinds of crossings between machines, from the top of a path down."""

from __future__ import annotations

from typing import Final

from iostrata.stitch.hop import Hop
from iostrata.stitch.nfs import Nfs
from iostrata.stitch.virtio import Virtio

HOPS: Final[tuple[Hop, ...]] = (Virtio(), Nfs())
