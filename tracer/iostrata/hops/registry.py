# SPDX-License-Identifier: Apache-2.0
"""The kinds of crossings between machines, from the top of a path down."""

from __future__ import annotations

from typing import Final

from iostrata.hops.ceph import Ceph
from iostrata.hops.fuse import Fuse
from iostrata.hops.hop import Hop
from iostrata.hops.iscsi import Iscsi
from iostrata.hops.librbd import Librbd
from iostrata.hops.nbd import Nbd
from iostrata.hops.nfs import Nfs
from iostrata.hops.ninep import Ninep
from iostrata.hops.nvme_tcp import NvmeTcp
from iostrata.hops.qemu_nbd import QemuNbd
from iostrata.hops.rbd_nbd import RbdNbd
from iostrata.hops.tgt import Tgt
from iostrata.hops.vfio import Vfio
from iostrata.hops.virtio import Virtio
from iostrata.hops.virtiofs import Virtiofs, VirtiofsCalls

HOPS: Final[tuple[Hop, ...]] = (
    Virtio(), Nfs(), Nbd(), NvmeTcp(), Iscsi(), Fuse(), Virtiofs(), Ninep(), Ceph(), Vfio(),
    Tgt(), QemuNbd(), RbdNbd(), VirtiofsCalls(), Librbd(),
)  # fmt: skip
