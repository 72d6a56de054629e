# SPDX-License-Identifier: Apache-2.0
"""The hop from a network block device to qemu-nbd.

As with nbd-server the wire key is the place on the disk, which is the offset in a raw image's file;
between that and qcow2's stand the image's tables. Its one thread receives and answers, and
a pool (or Linux's asynchronous I/O) carries out: a write that has to be durable, and the sync
behind it, are calls of different threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from iostrata.columns import Ints
from iostrata.hops.around import completed, renamed
from iostrata.hops.clients import of_this_client
from iostrata.hops.daemon import crossing_of
from iostrata.hops.hop import Asks, Held, Hop, Link, Pairs, Serves
from iostrata.hops.images import over_others, placed_by, unplaced
from iostrata.hops.nbd import asks_of
from iostrata.hops.processes import read_by, served_by, to_no_disk
from iostrata.model import NotObserved
from iostrata.stitch import Pieces, Reads, Spans, processes_of
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_DAEMON

SERVER: Final = b"qemu-nbd"


class QemuNbd(Hop):
    """A block request, carried out by threads of qemu-nbd."""

    name = "qemu-nbd"
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return served_by(lower, servers_of(lower), self.reads, rooms=True, disks=True)

    def to_no_disk(self, lower: Trace) -> int:
        return to_no_disk(lower, servers_of(lower))

    def read(self, link: Link) -> Reads:
        lower = link.lower.trace
        return read_by(lower, servers_of(lower), rooms=True)

    def placed(self, serves: Serves, lower: Trace) -> Serves:
        return placed_by(serves, lower)

    def completed(self, link: Link) -> Pairs:
        """With its cache=writethrough a client is not told that there is no write cache."""
        link = replace(link, pairs=of_this_client(link))
        return completed(link, servers_of(link.lower.trace), unasked=True)

    def renamed(self, link: Link, pieces: Ints, spans: Spans, own: int) -> Spans:
        return renamed(link, pieces, spans, own)

    def crossing(self, link: Link, held: Held) -> Spans:
        """Between two calls for one request the main thread is at it."""
        return crossing_of(link, held, "nbd.there", "nbd.server", "nbd.back")

    def untied(self, lower: Trace) -> str:
        return unplaced(lower, "a client") if len(servers_of(lower)) else ""

    def limits(self, link: Link) -> Iterator[NotObserved]:
        if over_others(link):
            what = "what is read of it before a part of a cluster is written first is not recorded"
            yield NotObserved("image below", what, "nbd.there")


def servers_of(lower: Trace) -> Ints:
    return processes_of(lower, THREAD_DAEMON, SERVER)
