# SPDX-License-Identifier: Apache-2.0
"""The hop from a guest's virtio file system to its daemon on the host (QEMU's virtiofsd).

Its wire key is a request's number, ``unique`` to the connection: the guest's kernel tells it of
what it sends, the daemon's own functions of what they take up and answer.
"""

from __future__ import annotations

from iostrata.hops.hop import Asks, Held, Hop, Link, Serves
from iostrata.hops.virtiofs.asks import asks_of
from iostrata.hops.virtiofs.crossing import crossing_of
from iostrata.hops.virtiofs.serves import serves_of
from iostrata.stitch import DAEMON, Pieces, Spans
from iostrata.trace import Trace


class Virtiofs(Hop):
    """A request of a guest's file system, served by a thread of virtiofsd."""

    name = "virtiofs"
    floor = DAEMON
    loops = False
    way = "hypervisor"
    # What was not followed is as if it were the guest's own daemon's.
    leaf = beyond = ""
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)
