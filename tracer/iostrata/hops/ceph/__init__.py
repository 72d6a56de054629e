# SPDX-License-Identifier: Apache-2.0
"""The hop to an OSD of Ceph: from a disk of the kernel's rbd, or of a program's own
(librbd), or from one that has copies made.

Its wire key is the number of an operation with who numbers it: a client, by the number that the
cluster gave to it, or an OSD. One for several copies has one number: which OSD each is for, both
ends know as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iostrata.hops.ceph.again import sent_again
from iostrata.hops.ceph.asks import asks_of
from iostrata.hops.ceph.beyond import beyond
from iostrata.hops.ceph.crossing import crossing_of
from iostrata.hops.ceph.serves import serves_of
from iostrata.hops.ceph.throttled import let_wait
from iostrata.hops.ceph.unrecorded import LIBRARY, not_recorded, untold
from iostrata.hops.ceph.waits import waiting_of
from iostrata.hops.connections import whole_number
from iostrata.hops.hop import Asks, Context, Held, Hop, Link, Serves
from iostrata.model import NotObserved
from iostrata.stitch import OPERATING, Pieces, Spans
from iostrata.trace import Trace

__all__ = ["LIBRARY", "Ceph"]


class Ceph(Hop):
    """An operation on an object, carried out by threads of an OSD."""

    name = "ceph"
    floor = OPERATING
    parted = True
    names = (whole_number,)

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower)

    def written(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower, written=True)

    def reads_not_followed(self, link: Link) -> Iterator[NotObserved]:
        if len(link.upper.points["rbd_answered"]):
            what = f"what {link.upper.machine} reads by it is not followed"
            yield NotObserved(self.name, what, "initiator.call")

    def not_recorded(self, upper: Trace, links: Sequence[Link]) -> Iterator[NotObserved]:
        yield from not_recorded(upper, links)

    def not_observed(self, link: Link) -> Iterator[NotObserved]:
        yield from sent_again(link)
        yield from let_wait(link)
        yield from beyond(link)

    def untied(self, lower: Trace) -> str:
        unseen = LIBRARY in self.untold(lower)
        return f"{LIBRARY.reason}, is not seen" if unseen else ""

    def untold(self, upper: Trace) -> Iterator[NotObserved]:
        yield from untold(upper)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def waiting(self, link: Link, held: Held) -> Context | None:
        return waiting_of(link, held)
