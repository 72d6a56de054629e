# SPDX-License-Identifier: Apache-2.0
"""Machines and what one does for the other, to spans of the write that asked."""

from iostrata.hops.graph import Graph, graph_of
from iostrata.hops.lift import Lifted, lift
from iostrata.hops.registry import HOPS
from iostrata.hops.served import units_of_served

__all__ = ["HOPS", "Graph", "Lifted", "graph_of", "lift", "units_of_served"]
