# SPDX-License-Identifier: Apache-2.0
"""Lab stage: who is told how bringing up and running goes."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    def say(self, text: str) -> None: ...
