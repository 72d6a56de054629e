# SPDX-License-Identifier: Apache-2.0
"""The hop from an NFS client to its server.

Its wire key is the xid, which client and server print alike; it is unique to a
connection until it is used again, which time settles.
"""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.hops.hop import Asks, Held, Link, Serves
from iostrata.hops.nfs.asks import asks_of
from iostrata.hops.nfs.crossing import crossing_of
from iostrata.hops.nfs.serves import serves_of
from iostrata.model import NotObserved
from iostrata.stitch import NO_SPANS, Pieces, Spans, Window
from iostrata.trace import Trace


class Nfs:
    """An RPC call: sent by the client, served by a thread of the server."""

    name = "nfs"
    floor = "svc"
    loops = True
    exclusive = False
    skips = False
    named = True
    asker = ""
    leaf = "beyond"
    beyond = "network and server"

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def translated(self, asks: Asks, upper: Trace, lower: Trace) -> Asks:
        """Both print the same xid."""
        return asks

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def context(self, link: Link, window: Window) -> Spans:
        """The server does not keep the client from running."""
        return NO_SPANS

    def disks(self, upper: Trace) -> Iterator[str]:
        """It has no disks, but mounts."""
        yield from ()

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        yield from ()
