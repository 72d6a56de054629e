# SPDX-License-Identifier: Apache-2.0
"""Hops: a machine's trace in, what it did for others as writes of its own out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from iostrata.columns import Ints
from iostrata.hops.hop import Hop
from iostrata.hops.processes import ROOM_KEY, some_of
from iostrata.hops.registry import HOPS
from iostrata.hops.virtio import Virtio
from iostrata.hops.virtio.serves import servers_of
from iostrata.stitch import ENGINES, METHOD, Pieces, Transferred, Units, image_devices
from iostrata.trace import Trace

TransfersOf = Callable[[Trace, Ints | None], Transferred]
"""``reads_of`` or ``direct_of``."""


def units_of_served(hop: Hop, trace: Trace) -> tuple[Units, Pieces, int] | None:
    """What the machine did for others by a hop, as the writes of one that has none of its own; how
    often it made room in a file, which is none."""
    serves, pieces = hop.written(trace)
    tables = hop.placed(serves, trace).shared & ~serves.shared
    wrote = np.flatnonzero(serves.key != ROOM_KEY)
    if not (count := len(wrote)):
        return None
    if rooms := len(serves) - count:
        serves, pieces = some_of(serves, pieces, wrote)
        tables = tables[wrote]
    begin = pieces.begin_ns[serves.piece]
    # It is at a command until its answer is sent, by which whoever asked may have it already.
    end = np.maximum(serves.end_ns, pieces.end_ns[serves.piece])
    written = np.where(tables, METHOD["tables"], METHOD["write"])
    units = Units(
        begin_ns=begin,
        end_ns=end,
        latency_ns=end - begin,
        tid=pieces.tid[serves.piece],
        tgid=np.where(serves.agent > 0, serves.agent, pieces.tid[serves.piece]),
        size_bytes=serves.size_bytes,
        durable_writes=1 - serves.flush.astype(np.int64),
        pieces=np.ones(count, np.int64),
        device_key=image_devices(trace, pieces)[serves.piece],
        inode=np.zeros(count, np.int64),
        offset_bytes=serves.offset_bytes,
        method=np.where(serves.flush, METHOD["flush"], written),
        engine=np.full(count, engine_of(hop)),
        failed=np.zeros(count, np.bool_),
        since_ns=begin,
    )
    return units, pieces, rooms


def made_for_guests(trace: Trace, transfers_of: TransfersOf) -> Transferred | None:
    """What those who have guests' disks read, or moved past the page cache, as a hop's; None: none
    has any."""
    if not len(servers := servers_of(trace)):
        return None
    found = transfers_of(trace, servers)
    (hop,) = (hop for hop in HOPS if isinstance(hop, Virtio))
    engine = np.full(len(found.units), engine_of(hop))
    return replace(found, units=replace(found.units, engine=engine))


def engine_of(hop: Hop) -> int:
    """The number of what is done for others by a hop, behind those of a machine's own."""
    return len(ENGINES) + HOPS.index(hop)
