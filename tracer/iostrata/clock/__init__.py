# SPDX-License-Identifier: Apache-2.0
"""Two machines' clocks, and what is known to lie within what, to a map between the clocks."""

from iostrata.clock.align import align
from iostrata.clock.alignment import SAME, Alignment
from iostrata.clock.intervals import Intervals

__all__ = ["SAME", "Alignment", "Intervals", "align"]
