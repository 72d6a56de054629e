# SPDX-License-Identifier: Apache-2.0
"""The hop from a guest to the machine that runs it.

Its wire key is the place on the disk: sector * 512 in the guest is the offset in
a raw image's file, in a system call of the virtual machine monitor (VMM); between that and
qcow2's stand the image's tables. A flush has no place; the VMM makes one fdatasync of several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from iostrata.columns import Ints
from iostrata.hops.around import completed, renamed
from iostrata.hops.hop import Asks, Context, Held, Hop, Link, Pairs, Serves
from iostrata.hops.images import over_others, placed_by, unplaced
from iostrata.hops.processes import to_no_disk
from iostrata.hops.virtio.asks import asks_of
from iostrata.hops.virtio.context import context_of
from iostrata.hops.virtio.crossing import crossing_of, waiting_of
from iostrata.hops.virtio.disks import disks_of
from iostrata.hops.virtio.library import read_by_library, reads_by_library
from iostrata.hops.virtio.serves import reads_of, servers_of, serves_of
from iostrata.hops.virtio.vcpus import NO_VCPUS, UNKNOWN_VCPU, vcpus_of
from iostrata.model import NotObserved
from iostrata.stitch import Pieces, Reads, Spans, Window
from iostrata.trace import Trace

__all__ = ["NO_VCPUS", "UNKNOWN_VCPU", "Virtio", "context_of", "vcpus_of"]


BY_A_DAEMON: Final = NotObserved(
    "kvm.inject of vhost-user",
    "how long a virtual CPU waited for a CPU to take a daemon's interrupt is not told apart",
    "vmm.complete",
)


class Virtio(Hop):
    """A block request of the guest, carried out by a thread of the VMM."""

    name = "virtio"
    loops = False
    moves = True
    exclusive = True
    skips = True
    asker = "guest"
    way = "hypervisor"
    leaf = "device"
    beyond = "hypervisor and below"
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower, self.reads)

    def to_no_disk(self, lower: Trace) -> int:
        return to_no_disk(lower, servers_of(lower))

    def read(self, link: Link) -> Reads:
        return reads_of(link.lower.trace)

    def placed(self, serves: Serves, lower: Trace) -> Serves:
        return placed_by(serves, lower)

    def unseen(self, link: Link) -> Ints:
        return read_by_library(link)

    def reads_not_followed(self, link: Link) -> Iterator[NotObserved]:
        if len(link.unseen):
            what = f"what {link.upper.machine} reads of a disk that its QEMU has by it"
            yield NotObserved("librbd", f"{what} is not followed", "device.read")

    def completed(self, link: Link) -> Pairs:
        return completed(link, servers_of(link.lower.trace))

    def renamed(self, link: Link, pieces: Ints, spans: Spans, own: int) -> Spans:
        return renamed(link, pieces, spans, own)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def waiting(self, link: Link, held: Held) -> Context | None:
        return waiting_of(link, held)

    def context(self, link: Link, window: Window) -> Context | None:
        return context_of(link, window)

    def disks(self, upper: Trace) -> Iterator[str]:
        return disks_of(upper)

    def untied(self, lower: Trace) -> str:
        if not len(servers_of(lower)):
            return ""
        by_library = "what a guest reads of a disk that its QEMU has by librbd is not followed"
        return unplaced(lower, "a guest") or (by_library if reads_by_library(lower) else "")

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        if vcpus_of(link.upper, link.lower.trace, link.monitors) is None:
            yield NO_VCPUS
        if len(np.setdiff1d(link.agents, link.monitors)):
            yield BY_A_DAEMON

    def limits(self, link: Link) -> Iterator[NotObserved]:
        throttled = link.lower.trace.facts.throttled
        for pid in link.agents.tolist():
            if pid in throttled:
                what = "its command line limits a disk (throttling), and no point tells of it"
                name = throttled[pid] or f"of process {pid}"
                yield NotObserved(f"limits by QEMU {name}", what, "vmm.submit")
        if over_others(link):
            what = "what is read of it before a part of a cluster is written first is not recorded"
            yield NotObserved("image below", what, "vmm.submit")
