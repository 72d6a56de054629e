# SPDX-License-Identifier: Apache-2.0
"""Live: a recording being made, or replayed at its own pace, to what each second held."""

from iostrata.live.history import MOST_INTERVALS, History
from iostrata.live.interval import Interval
from iostrata.live.latest import Latest
from iostrata.live.replayed import Replayed

__all__ = ["MOST_INTERVALS", "History", "Interval", "Latest", "Replayed"]
