# SPDX-License-Identifier: Apache-2.0
"""The hop from a network block device to nbd-server.

Its wire key is the place on the disk: sector * 512 here is the offset in the export's file,
in a system call of the server's process. A flush has no place. ``sync = true`` has the server sync
behind each write.
"""

from __future__ import annotations

from iostrata.hops.daemon import Daemon
from iostrata.hops.hop import Asks
from iostrata.hops.nbd.asks import asks_of
from iostrata.trace import Trace

__all__ = ["Nbd", "asks_of"]


class Nbd(Daemon):
    """A block request, carried out by a process of nbd-server."""

    name = "nbd"
    server = b"nbd-server"
    there, between, back = "nbd.there", "nbd.server", "nbd.back"

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)
