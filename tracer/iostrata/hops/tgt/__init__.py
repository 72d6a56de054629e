# SPDX-License-Identifier: Apache-2.0
"""The hop from a disk by iSCSI to tgtd, a target in user space.

It tells nothing of its commands: the wire key is the place on the disk, which is the offset in the
file (or disk) behind the LUN, in a system call of tgtd's, or in a request to Ceph's library of one
that it has from there. SYNCHRONIZE CACHE has no place; of a
write with FUA, or where the LUN has no write cache, tgtd's thread syncs behind it.
"""

from __future__ import annotations

from iostrata.hops.daemon import Daemon
from iostrata.hops.hop import Asks
from iostrata.hops.tgt.asks import asks_of
from iostrata.trace import Trace


class Tgt(Daemon):
    """A block request, carried out by a thread of tgtd."""

    name = "iscsi-tgt"
    server, there, between, back = b"tgtd", "tgt.there", "tgt.server", "tgt.back"

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)
