# SPDX-License-Identifier: Apache-2.0
"""The hop from a file system in user space (FUSE) to its daemon on the same machine.

Its wire key is a request's number, ``unique`` to the connection, which is the file system's
superblock: the kernel tells it of what it sends, the daemon's threads read it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iostrata.hops.fuse.asks import asks_of
from iostrata.hops.fuse.crossing import crossing_of
from iostrata.hops.fuse.serves import serves_of
from iostrata.hops.fuse.waits import waiting_of
from iostrata.hops.hop import Asks, Context, Held, Hop, Link, Serves
from iostrata.model import NotObserved
from iostrata.stitch import DAEMON, Pieces, Spans
from iostrata.trace import Trace


class Fuse(Hop):
    """A request of a file system, served by a thread of its daemon."""

    name = "fuse"
    floor = DAEMON
    within = True
    way = leaf = beyond = "daemon"
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def waiting(self, link: Link, held: Held) -> Context | None:
        return waiting_of(link, held)

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        served = link.serves.piece[link.pairs.serve]
        several = np.count_nonzero(link.lower.pieces.tid[served] < 0)
        unknown = np.count_nonzero(link.unknown[served])
        for count, whose in ((several, "a thread that had several at once"),
                             (unknown, "one of which nothing was known yet")):  # fmt: skip
            if count:
                what = f"{count:,} of {len(served):,} requests were answered by {whose}"
                yield NotObserved("what the daemon did", what, "fuse.daemon")
