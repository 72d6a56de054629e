# SPDX-License-Identifier: Apache-2.0
"""The hop from a network block device to nbd-server.

Its wire key is the place on the disk: sector * 512 here is the offset in the export's file,
in a system call of the server's process. A flush has no place. ``sync = true`` has the server sync
behind each write.
"""

from __future__ import annotations

from typing import Final

from iostrata.hops.daemon import crossing_of, reads_of, serves_of
from iostrata.hops.hop import Asks, Held, Hop, Link, Serves
from iostrata.hops.nbd.asks import asks_of
from iostrata.stitch import Pieces, Reads, Spans
from iostrata.trace import Trace

SERVER: Final = b"nbd-server"


class Nbd(Hop):
    """A block request, carried out by a process of nbd-server."""

    name = "nbd"
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower, SERVER, self.reads)

    def read(self, link: Link) -> Reads:
        return reads_of(link.lower.trace, SERVER)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held, "nbd.there", "nbd.back")
