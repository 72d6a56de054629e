# SPDX-License-Identifier: Apache-2.0
"""What a source of clocks says: a line, and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass

from iostrata.clock.line import Line


@dataclass(frozen=True)
class Offer:
    """``line``: the lower machine's time in, the upper's out; ``bound_ns``: see Alignment.

    ``sure``: that it is of these two machines, so that it contradicts whatever is elsewhere.
    ``pid``: the process that is the upper machine then, 0: none is told.
    """

    line: Line
    bound_ns: int
    sure: bool = True
    pid: int = 0
