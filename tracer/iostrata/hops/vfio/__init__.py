# SPDX-License-Identifier: Apache-2.0
"""The hop from a guest's disk of its own (VFIO) to the machine that runs the guest.

What is asked of the disk passes the host by; each of the disk's interrupts comes to it first,
and bears no key. So a request was complete by the last one of its disk before its end. What kind
of controller the disk has, both machines know: it is the key by which disks are tied.
"""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.columns import distinct
from iostrata.hops.hop import Asks, Context, Held, Hop, Link, Serves
from iostrata.hops.vfio.asks import asks_of
from iostrata.hops.vfio.crossing import crossing_of
from iostrata.hops.vfio.serves import serves_of
from iostrata.hops.virtio import NO_VCPUS, context_of, vcpus_of
from iostrata.model import NotObserved
from iostrata.stitch import Pieces, Spans, Window
from iostrata.trace import Trace


class Vfio(Hop):
    """A request of a guest, of which its host sees the interrupt only."""

    name = "vfio"
    loops = False
    exclusive = True
    unkeyed = True
    way = "hypervisor"
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def context(self, link: Link, window: Window) -> Context | None:
        return context_of(link, window)

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        reached = distinct(link.asks.group[link.pairs.crossing]).tolist()
        for disk in map(link.upper.facts.device_name, reached):
            what = f"{link.upper.machine} asks it by itself (VFIO): its interrupts only are seen"
            yield NotObserved(f"requests of {disk}", what, "vfio.device")
        if vcpus_of(link.upper, link.lower.trace, link.monitors) is None:
            yield NO_VCPUS
