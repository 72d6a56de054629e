# SPDX-License-Identifier: Apache-2.0
"""Numbers and lists to text, the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

NAMED: Final = 3


def duration(ns: float) -> str:
    """Nanoseconds with a unit, four significant digits at most: ``86.4 us``."""
    sign, ns = ("-" if ns < 0 else ""), abs(ns)
    for limit, scale, unit in ((1e3, 1, "ns"), (1e6, 1e3, "us"), (1e9, 1e6, "ms")):
        if ns < limit * 0.99995:
            return f"{sign}{significant(ns / scale)} {unit}"
    return f"{sign}{significant(ns / 1e9)} s"


def significant(value: float) -> str:
    """Three or four digits: 9.87, 98.7, 987, 9876."""
    if value == 0 or abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def plural(noun: str) -> str:
    """``flushes``, ``requests``."""
    return f"{noun}es" if noun.endswith("sh") else f"{noun}s"


def few(names: Sequence[str]) -> str:
    """``a, b, c and 4 more``."""
    some, more = ", ".join(names[:NAMED]), len(names) - NAMED
    return f"{some} and {more} more" if more > 0 else some


def size(size_bytes: float) -> str:
    """Bytes as people write them for block sizes: ``8k``, ``1M``, ``300``."""
    for scale, unit in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if size_bytes >= scale and size_bytes % scale == 0:
            return f"{size_bytes // scale:.0f}{unit}"
    return f"{size_bytes:.0f}"
