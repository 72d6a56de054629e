# SPDX-License-Identifier: Apache-2.0
"""Machines and what one does for the other, to spans of the write that asked."""

from iostrata.hops.lift import Lifted, lift
from iostrata.hops.registry import HOPS
from iostrata.hops.served import units_of_served

__all__ = ["HOPS", "Lifted", "lift", "units_of_served"]
