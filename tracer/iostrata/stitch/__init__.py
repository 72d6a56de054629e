# SPDX-License-Identifier: Apache-2.0
"""Events to pieces to spans."""

from iostrata.stitch.audit import Audit
from iostrata.stitch.calls import Pieces, Units, together, units_of_calls
from iostrata.stitch.journal import commits_of
from iostrata.stitch.lift import Lifted, lift
from iostrata.stitch.submissions import units_of_requests
from iostrata.stitch.window import windows

__all__ = [
    "Audit", "Lifted", "Pieces", "Units", "commits_of", "lift", "together", "units_of_calls",
    "units_of_requests", "windows",
]  # fmt: skip
