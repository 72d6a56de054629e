# SPDX-License-Identifier: Apache-2.0
"""The hop from a disk by iSCSI to the kernel's own target (LIO).

Its wire key is the initiator's tag of a command (ITT), which both ends know; it is used again at
once, which time settles. All sessions number alike: a connection's addresses and ports tell them
apart. A command whose tag was not seen is known by its place on the disk, if only one there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iostrata.hops.connections import ports_of, whole_number
from iostrata.hops.hop import Asks, Held, Hop, Link, Pairs, Serves
from iostrata.hops.iscsi.asks import asks_of
from iostrata.hops.iscsi.crossing import completed, crossing_of, unseen_arrivals
from iostrata.hops.iscsi.serves import serves_of
from iostrata.hops.iscsi.streams import streams_of
from iostrata.hops.route import Streams
from iostrata.hops.targets import read_by
from iostrata.model import NotObserved
from iostrata.stitch import Pieces, Reads, Spans
from iostrata.trace import Trace
from iostrata.units import duration

LATE: Final = 0.01
"""Of what commands took, what may be said to be the network's and be the target's: it is told."""


class Iscsi(Hop):
    """A command of SCSI, carried out by the thread that receives it."""

    name = "iscsi"
    floor = "target"
    names = (whole_number, ports_of)
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower, self.reads)

    def completed(self, link: Link) -> Pairs:
        return completed(link)

    def read(self, link: Link) -> Reads:
        return read_by(link)

    def streams(self, link: Link) -> Streams | None:
        return streams_of(link)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)

    def limits(self, link: Link) -> Iterator[NotObserved]:
        ask = link.pairs.ask
        took_ns = int((link.asks.end_ns[ask] - link.asks.begin_ns[ask]).sum())
        count, late_ns = unseen_arrivals(link)
        if late_ns > LATE * took_ns:
            each = duration(late_ns / len(ask))
            what = (
                f"{count} of {len(ask)} commands came while the target's thread did not sleep: it "
                f"had no CPU for up to {each} a command"
            )
            yield NotObserved("arrival", what, "network.there")
