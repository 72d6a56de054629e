# SPDX-License-Identifier: Apache-2.0
"""BlueStore, in which an OSD of Ceph keeps objects: data on a disk, and a log that names it."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Programs, Rank, Row, Visibility
from iostrata.layers.osd import HOP

BLUESTORE: Final = Declaration(
    rows=(
        Row(
            "bluestore.data",
            "OS",
            "data on its way to the OSD's disk, outside the block layer and the device",
            ("bluestore_data", "bluestore_ready"),
            "who takes the disk's completions has no CPU. Small writes have no such row: their "
            "data goes with the log (`bluestore prefer deferred size`).",
            "#b39889",
            "queue",
        ),
        Row(
            "bluestore.log",
            "OS",
            "data there until the store's log had it, outside the block layer and the device",
            ("bluestore_ready", "bluestore_submit", "bluestore_synced", "bluestore_done"),
            "one thread writes for all: it is still at those before, or has no CPU; or RocksDB "
            "compacts.",
            "#5d4037",
            "queue",
        ),
    ),
    ranks=(
        Rank("bluestore.data", "bluestore.data", Depth.JOURNAL),
        Rank("bluestore.log", "bluestore.log", Depth.JOURNAL),
    ),
    programs=(Programs("bluestore", serves=HOP),),
    visibility=(
        Visibility(
            "bluestore",
            ("bluestore",),
            "what OSDs wait for in their store is osd.op",
            absent="no ceph-osd runs here",
            role="server",
        ),
    ),
)
