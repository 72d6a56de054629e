# SPDX-License-Identifier: Apache-2.0
"""Lab stage: who is told how bringing up and running goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from iostrata.record import Progress


class LabListener(Protocol):
    def say(self, text: str) -> None: ...

    def heard(self, progress: Mapping[str, Progress]) -> None:
        """How far each machine's recording is, by name; none: they have ended."""
        ...
