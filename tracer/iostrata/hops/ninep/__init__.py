# SPDX-License-Identifier: Apache-2.0
"""The hop from a guest's 9p file system to the QEMU that serves it, on the host.

Its wire key is the place in the file: which file (QEMU numbers files as its host does, unless it
is told to remap them), at which offset, how many bytes. A request's number, its tag, does not
reach what the host's kernel sees of it. QEMU makes one call of each request, by a thread of a pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iostrata.hops.hop import Asks, Context, Held, Hop, Link, Serves
from iostrata.hops.ninep.asks import asks_of
from iostrata.hops.ninep.files import number_of
from iostrata.hops.ninep.serves import serves_of
from iostrata.hops.virtio.context import context_of
from iostrata.hops.virtio.crossing import crossing_of, waiting_of
from iostrata.model import NotObserved
from iostrata.stitch import Pieces, Spans, Window
from iostrata.trace import Trace

UNTOLD: Final = NotObserved(
    "virtio.submit", "how the guest told its device of 9p's requests was not seen", "vmm.submit"
)
"""A kernel may have no function of its own for that (virtqueue_kick has all in one)."""


class Ninep(Hop):
    """A request of a guest's file system, carried out by a thread of its QEMU."""

    name = "ninep"
    loops = False
    overlaps = True
    names = (number_of,)
    way = "hypervisor"
    leaf = beyond = "file server"

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def waiting(self, link: Link, held: Held) -> Context | None:
        return waiting_of(link, held)

    def context(self, link: Link, window: Window) -> Context | None:
        return context_of(link, window)

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        if (link.asks.told_ns < 0).all():
            yield UNTOLD
