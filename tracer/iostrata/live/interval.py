# SPDX-License-Identifier: Apache-2.0
"""Live: what passes from a source to the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iostrata.model import Breakdown


@dataclass(frozen=True)
class Interval:
    """The writes that ended from ``begin_ns`` until ``end_ns``; None: there were none.

    ``skipped_ns``: time before ``begin_ns``, and after the interval before, that was
    not looked at; ``skipped_events``: about how many events it had, beside the ``events``
    that were looked at. ``seen_ns``: writes that took no longer are all there; None:
    whatever they took. ``lost``: events lost so far, by ``machine:point``.
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
