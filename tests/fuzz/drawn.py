# SPDX-License-Identifier: Apache-2.0
"""Bytes in, one input out: they are drawn from instead of chance, for who makes bytes up."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.mutate import Files
from tests.fuzz.parts import PARTS, tried

FRACTION_BITS: Final = 53


class Drawn(Random):
    """What the bytes say; behind their end chance, of which they are the seed: who draws until
    something is another one would do so for ever."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._left = data

    def getrandbits(self, count: int) -> int:
        size = (count + 7) // 8
        if len(self._left) < size:
            self._left = b""
            return super().getrandbits(count)
        taken, self._left = self._left[:size], self._left[size:]
        return int.from_bytes(taken, "big") >> (8 * size - count)

    def random(self) -> float:
        return self.getrandbits(FRACTION_BITS) / (1 << FRACTION_BITS)


def led(data: bytes, found: Sequence[Files], place: Path) -> tuple[str, str]:
    """Which part of a recording it was, and what became of it. Errors: those of ``tried``."""
    drawn = Drawn(data)
    part = drawn.choice(sorted(PARTS))
    with tempfile.TemporaryDirectory(dir=place) as own:
        return part, tried(part, found, drawn, Path(own))
