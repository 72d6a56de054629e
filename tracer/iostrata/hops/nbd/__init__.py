# SPDX-License-Identifier: Apache-2.0
"""The hop from a network block device to nbd-server.

Its wire key is the place on the disk: sector * 512 here is the offset in the export's file,
in a system call of the server's process. A flush has no place.
"""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.hops.hop import Asks, Held, Link, Serves
from iostrata.hops.nbd.asks import asks_of
from iostrata.hops.nbd.crossing import crossing_of
from iostrata.hops.nbd.serves import serves_of
from iostrata.model import NotObserved
from iostrata.stitch import NO_SPANS, Pieces, Spans, Window
from iostrata.trace import Trace


class Nbd:
    """A block request, carried out by a process of nbd-server."""

    name = "nbd"
    floor = "syscall"
    loops = True
    exclusive = False
    skips = False
    named = False
    asker = ""
    leaf = "beyond"
    beyond = "network and server"

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def translated(self, asks: Asks, upper: Trace, lower: Trace) -> Asks:
        """A whole file's: as they are."""
        return asks

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def context(self, link: Link, window: Window) -> Spans:
        """The server does not keep the client from running."""
        return NO_SPANS

    def disks(self, upper: Trace) -> Iterator[str]:
        """None: what a server takes has a row of its own."""
        return iter(())

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        return iter(())
