# SPDX-License-Identifier: Apache-2.0
"""The hop from a guest's virtio file system to its daemon on the host (QEMU's virtiofsd).

Its wire key is a request's number, ``unique`` to the connection: the guest's kernel tells it of
what it sends, the daemon's own functions of what they take up and answer. Of a daemon without such
functions (in Rust) its calls are known by their place in the file, not by the file: of what is
written at one place of two files at once, and of two syncs at once, nothing tells which is whose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iostrata.hops.hop import Asks, Context, Held, Hop, Link, Serves
from iostrata.hops.virtio import NO_VCPUS, context_of, vcpus_of
from iostrata.hops.virtiofs.asks import asks_by_place, asks_of
from iostrata.hops.virtiofs.crossing import crossing_of
from iostrata.hops.virtiofs.serves import serves_by_calls, serves_by_requests, written_of
from iostrata.hops.virtiofs.waits import waiting_of
from iostrata.model import NotObserved
from iostrata.stitch import DAEMON, Pieces, Spans, Window
from iostrata.trace import Trace

NO_FUNCTIONS: Final = NotObserved(
    "virtiofsd's own work",
    "it has no functions to look at (the one in Rust), only calls",
    "virtiofs.there and virtiofs.back",
)


class Virtiofs(Hop):
    """A request of a guest's file system, served by a thread of virtiofsd."""

    name = "virtiofs"
    floor = DAEMON
    loops = False
    moves = True
    way = "hypervisor"
    # What was not followed is as if it were the guest's own daemon's.
    leaf = beyond = ""
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_by_requests(lower)

    def written(self, lower: Trace) -> tuple[Serves, Pieces]:
        return written_of(lower)

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        if vcpus_of(link.upper, link.lower.trace, link.monitors) is None:
            yield NO_VCPUS

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def waiting(self, link: Link, held: Held) -> Context | None:
        return waiting_of(link, held)

    def context(self, link: Link, window: Window) -> Context | None:
        return context_of(link, window)


class VirtiofsCalls(Virtiofs):
    """The same of a virtiofsd that tells of no request: its calls are known."""

    def asks(self, upper: Trace) -> Asks:
        return asks_by_place(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_by_calls(lower)

    def written(self, lower: Trace) -> tuple[Serves, Pieces]:
        return self.serves(lower)

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        yield NO_FUNCTIONS
        yield from super().not_observed(link)
