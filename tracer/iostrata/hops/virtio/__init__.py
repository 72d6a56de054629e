# SPDX-License-Identifier: Apache-2.0
"""The hop from a guest to the machine that runs it.

Its wire key is the place on the disk: sector * 512 in the guest is the offset in
a raw image's file, in a system call of the virtual machine monitor (VMM). A flush has
no place; the VMM makes one fdatasync of several of them.
"""

from __future__ import annotations

from iostrata.hops.hop import Asks, Held, Link, Serves
from iostrata.hops.virtio.asks import asks_of
from iostrata.hops.virtio.context import context_of
from iostrata.hops.virtio.crossing import crossing_of
from iostrata.hops.virtio.serves import serves_of
from iostrata.stitch.calls import Pieces
from iostrata.stitch.spans import Spans
from iostrata.stitch.window import Window
from iostrata.trace.read import Trace


class Virtio:
    """A block request of the guest, carried out by a thread of the VMM."""

    name = "virtio"
    floor = "syscall"

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def context(self, link: Link, window: Window) -> Spans:
        return context_of(link, window)
