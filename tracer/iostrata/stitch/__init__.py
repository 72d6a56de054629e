# SPDX-License-Identifier: Apache-2.0
"""Events to pieces to spans."""

from iostrata.stitch.calls import Pieces, Units, units_of_calls
from iostrata.stitch.journal import commits_of
from iostrata.stitch.stitch import Stitched, stitch
from iostrata.stitch.window import windows

__all__ = ["Pieces", "Stitched", "Units", "commits_of", "stitch", "units_of_calls", "windows"]
