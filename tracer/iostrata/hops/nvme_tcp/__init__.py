# SPDX-License-Identifier: Apache-2.0
"""The hop from a disk of NVMe over TCP to its target in the kernel.

Its wire key is the command's identifier, generation included, with the queue and the controller
that both machines number alike. It is used again after 16 uses of its number, which time settles;
and each queue is a connection of a host, whose id, addresses and ports tell apart targets that
number alike, and copies of a machine.
"""

from __future__ import annotations

from iostrata.hops.connections import (
    host_and_ports_of,
    host_of,
    ports_and_addresses_of,
    whole_number,
)
from iostrata.hops.hop import Asks, Held, Hop, Link, Serves
from iostrata.hops.nvme_tcp.asks import asks_of
from iostrata.hops.nvme_tcp.crossing import crossing_of
from iostrata.hops.nvme_tcp.serves import serves_of
from iostrata.hops.nvme_tcp.streams import streams_of
from iostrata.hops.route import Streams
from iostrata.hops.targets import read_by
from iostrata.stitch import Pieces, Reads, Spans
from iostrata.trace import Trace


class NvmeTcp(Hop):
    """A command of the initiator's, carried out by a worker of the target."""

    name = "nvme-tcp"
    floor = "target"
    names = (whole_number, host_and_ports_of, ports_and_addresses_of)
    least = staticmethod(host_of)
    follows_reads = True

    def asks(self, upper: Trace) -> Asks:
        return asks_of(upper, self.reads)

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower, self.reads)

    def read(self, link: Link) -> Reads:
        return read_by(link)

    def streams(self, link: Link) -> Streams | None:
        return streams_of(link)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held)
