# SPDX-License-Identifier: Apache-2.0
"""Machines of the lab whose clocks count what they execute, 2 ns each: what else this machine has
to do is not in their times, nor is how fast it is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from iostrata.lab.architecture import ARCHITECTURES

WORDS = ("-accel", "tcg,thread=single", "-icount", "shift=1,sleep=on", "-cpu", "max,+svm")


def counting() -> AbstractContextManager[object]:
    """Those that are emulated and booted meanwhile. Not tried with machines within others."""
    processors: AbstractContextManager[object] = patch.dict(
        ARCHITECTURES["amd64"].accelerators, {"tcg": WORDS}
    )
    return processors
