# SPDX-License-Identifier: Apache-2.0
"""Live: what passes from a source to the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iostrata.model import Breakdown


@dataclass(frozen=True)
class Interval:
    """The writes that ended from ``begin_ns`` until ``end_ns``; None: there were none.

    ``skipped_ns``: time beside that, and after what was known before, that was not looked at;
    ``skipped_events``: about how many events it had, beside the ``events`` that were looked at.
    ``each``: one of the writes stands for so many. ``seen_ns``: writes that took no longer are all
    there; None: whatever they took. ``lost``: events lost so far, by ``machine:point``.
    ``hanging``: calls that began before the recording, and are not over yet.
    """

    begin_ns: int
    end_ns: int
    skipped_ns: int
    skipped_events: int
    events: int
    seen_ns: int | None
    breakdown: Breakdown | None
    lost: Mapping[str, int]
    hanging: int = 0
    each: float = 1.0

    @property
    def took_ns(self) -> int:
        """Of all, looked at or not."""
        return self.end_ns - self.begin_ns + self.skipped_ns

    def happened(self, looked: int) -> float:
        """About how many there were, by the events, if so many were looked at."""
        return looked * (1 + self.skipped_events / max(self.events, 1))
