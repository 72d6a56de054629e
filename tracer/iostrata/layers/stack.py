# SPDX-License-Identifier: Apache-2.0
"""The stack: the declarations of all layers in, their rows, ranks and programs in order out.

At each instant of a write the deepest layer at work for it holds the time: the rank
that comes last in ``STACK``. Several ranks may share one row (a request tied by time
alone ranks below everything that is tied by a key, but its time is still the device's).

Each machine on a write's path has the whole stack once; all of a lower machine's
ranks are deeper than all of an upper one's. Its first ranks are those of the way
to it and back (``HOPS``), which exist only between two recorded machines.

To add a layer: its file beside this one, and its line in ``LAYERS``.
"""

from __future__ import annotations

from typing import Final

from iostrata.layers.block import BLOCK
from iostrata.layers.bluestore import BLUESTORE
from iostrata.layers.declaration import Depth
from iostrata.layers.device import DEVICE
from iostrata.layers.fs import FS
from iostrata.layers.fuse import FUSE
from iostrata.layers.image import IMAGE
from iostrata.layers.initiator import INITIATOR
from iostrata.layers.iscsi import ISCSI
from iostrata.layers.journal import JOURNAL
from iostrata.layers.librbd import LIBRBD
from iostrata.layers.lock import LOCK
from iostrata.layers.nbd import NBD
from iostrata.layers.network import NETWORK
from iostrata.layers.ninep import NINEP
from iostrata.layers.nvme import NVME
from iostrata.layers.osd import OSD
from iostrata.layers.packet import PACKET
from iostrata.layers.pause import PAUSE
from iostrata.layers.rbd import RBD
from iostrata.layers.read import READ
from iostrata.layers.rpc import RPC
from iostrata.layers.svc import SVC
from iostrata.layers.syscall import SYSCALL
from iostrata.layers.target import TARGET
from iostrata.layers.tgt import TGT
from iostrata.layers.throttle import THROTTLE
from iostrata.layers.unfollowed import UNFOLLOWED
from iostrata.layers.vfio import VFIO
from iostrata.layers.virtio import VIRTIO
from iostrata.layers.virtiofs import VIRTIOFS
from iostrata.layers.wakeup import WAKEUP

# As the table shows them.
LAYERS: Final = (
    VIRTIO,
    VFIO,
    VIRTIOFS,
    NETWORK,
    PACKET,
    UNFOLLOWED,
    SVC,
    TARGET,
    OSD,
    FUSE,
    NINEP,
    SYSCALL,
    IMAGE,
    READ,
    FS,
    RPC,
    PAUSE,
    LOCK,
    JOURNAL,
    BLUESTORE,
    WAKEUP,
    THROTTLE,
    BLOCK,
    INITIATOR,
    NVME,
    ISCSI,
    RBD,
    LIBRBD,
    NBD,
    TGT,
    DEVICE,
)

ROWS: Final = tuple(row for layer in LAYERS for row in layer.rows)
STACK: Final = tuple(
    sorted((rank for layer in LAYERS for rank in layer.ranks), key=lambda rank: rank.depth)
)
HOPS: Final = tuple(rank for rank in STACK if rank.depth == Depth.WAY)
RANK: Final = {rank.name: number for number, rank in enumerate(STACK)}
SOURCE: Final = tuple(RANK[rank.instead_of or rank.name] for rank in STACK)
"""Of each rank the one that a machine's own events give."""

# What not every machine has comes last.
VISIBILITY: Final = tuple(
    sorted(
        (s for layer in LAYERS for s in layer.visibility),
        key=lambda visibility: bool(visibility.absent),
    )
)
PROGRAMS: Final = tuple(programs for layer in LAYERS for programs in layer.programs)
OBSERVERS: Final = tuple(observer for layer in LAYERS for observer in layer.observers)
