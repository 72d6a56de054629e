# SPDX-License-Identifier: Apache-2.0
"""Workload: a Phase is what became of one test."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

NS: Final = 1_000_000_000


class Phase(msgspec.Struct, frozen=True):
    """When a test ran (CLOCK_MONOTONIC) and how often; ``unavailable``: why it did not."""

    group: str
    name: str
    begin_ns: int = 0
    end_ns: int = 0
    operations: int = 0
    unavailable: str = ""

    @property
    def ns_an_operation(self) -> float:
        return (self.end_ns - self.begin_ns) / self.operations if self.operations else 0.0

    @property
    def operations_a_second(self) -> float:
        return NS / self.ns_an_operation if self.operations else 0.0


def read_phases(path: Path) -> list[Phase]:
    """Those that ended; none where it was ended before it could begin."""
    if not path.exists():
        return []
    return msgspec.json.Decoder(Phase).decode_lines(path.read_bytes())
