# SPDX-License-Identifier: Apache-2.0
"""Events to pieces to spans."""

from iostrata.stitch.account import units_of
from iostrata.stitch.audit import Audit
from iostrata.stitch.calls import Pieces, Units
from iostrata.stitch.journal import commits_of
from iostrata.stitch.window import windows

__all__ = ["Audit", "Pieces", "Units", "commits_of", "units_of", "windows"]
