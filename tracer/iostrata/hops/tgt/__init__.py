# SPDX-License-Identifier: Apache-2.0
"""The hop from a disk by iSCSI to tgtd, a target in user space.

It tells nothing of its commands: the wire key is the place on the disk, which is the offset in the
file (or disk) behind the LUN, in a system call of tgtd's. SYNCHRONIZE CACHE has no place; of a
write with FUA, or where the LUN has no write cache, tgtd's thread syncs behind it.
"""

from __future__ import annotations

from typing import Final

from iostrata.hops.daemon import crossing_of, reads_of, serves_of
from iostrata.hops.hop import Asks, Held, Hop, Link, Serves
from iostrata.hops.tgt.asks import asks_of
from iostrata.stitch import Pieces, Reads, Spans
from iostrata.trace import Trace

SERVER: Final = b"tgtd"


class Tgt(Hop):
    """A block request, carried out by a thread of tgtd."""

    name = "iscsi-tgt"
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower, SERVER, self.reads)

    def read(self, link: Link) -> Reads:
        return reads_of(link.lower.trace, SERVER)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held, "tgt.there", "tgt.back")
