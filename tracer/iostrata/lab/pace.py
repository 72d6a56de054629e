# SPDX-License-Identifier: Apache-2.0
"""Lab stage: how long machines take to boot here in, how patient to be with them out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

# What a machine takes where nothing else runs, emulated by a CPU of its own.
BOOT_S: Final = 10.0
# However busy this machine is: what takes longer than so many times its limit hangs.
BOUND: Final = 10.0


@dataclass
class Pace:
    """``factor``: by which limits are longer than where nothing else runs."""

    factor: float = 1.0

    def booted(self, took_s: float) -> None:
        """A machine came up, as the last that was waited for."""
        self._at_least(took_s / BOOT_S)

    def loaded(self) -> None:
        """Nothing has come up yet: from how many processes here wait for each CPU."""
        self._at_least(os.getloadavg()[0] / (os.cpu_count() or 1))

    def limit_s(self, limit_s: float) -> float:
        """``limit_s``: where nothing else runs."""
        return limit_s * self.factor

    def _at_least(self, factor: float) -> None:
        self.factor = max(self.factor, min(factor, BOUND))
