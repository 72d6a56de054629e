# SPDX-License-Identifier: Apache-2.0
"""Machines and what one does for the other, to spans of the write that asked."""

from iostrata.hops.around import copied
from iostrata.hops.aside import beside
from iostrata.hops.ceph import LIBRARY
from iostrata.hops.connections import readdressed
from iostrata.hops.evidence import Witnesses
from iostrata.hops.furthest import place_of
from iostrata.hops.graph import Graph, graph_of
from iostrata.hops.hop import READ_MARK, Hop, Link, Node
from iostrata.hops.lift import Lifted, View, lift
from iostrata.hops.registry import HOPS
from iostrata.hops.served import made_for_guests, units_of_served
from iostrata.hops.virtio import UNKNOWN_VCPU, vcpus_of

__all__ = [
    "HOPS", "LIBRARY", "READ_MARK", "UNKNOWN_VCPU", "Graph", "Hop", "Lifted", "Link", "Node",
    "View", "Witnesses", "beside", "copied", "graph_of", "lift", "made_for_guests", "place_of",
    "readdressed", "units_of_served", "vcpus_of",
]  # fmt: skip
