# SPDX-License-Identifier: Apache-2.0
"""The hop from an NFS client to its server.

Its wire key is the xid, which client and server print alike; it is unique to a
connection until it is used again, which time settles. Machines that are copies of one
use the same xids and ports: their addresses tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.hops.connections import ports_of, whole_number
from iostrata.hops.hop import Asks, Held, Hop, Link, Serves
from iostrata.hops.nfs.asks import asks_of
from iostrata.hops.nfs.crossing import crossing_of
from iostrata.hops.nfs.own import own_servers
from iostrata.hops.nfs.reads import read_by
from iostrata.hops.nfs.serves import serves_of
from iostrata.hops.nfs.streams import streams_of
from iostrata.hops.route import Streams
from iostrata.layers import NFS
from iostrata.stitch import Pieces, Reads, Spans
from iostrata.trace import Trace


class Nfs(Hop):
    """An RPC call: sent by the client, served by a thread of the server."""

    name = "nfs"
    floor = "svc"
    names = (whole_number, ports_of)
    follows_reads = True
    mounts = NFS

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def streams(self, link: Link) -> Streams | None:
        return streams_of(link)

    def read(self, link: Link) -> Reads:
        return read_by(link)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def disks(self, upper: Trace) -> Iterator[str]:
        return own_servers(upper)
