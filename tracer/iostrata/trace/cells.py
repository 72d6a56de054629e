# SPDX-License-Identifier: Apache-2.0
"""Trace: a cell of a fact to the number that it is."""

from __future__ import annotations

from typing import Final

MOST_DIGITS: Final = 20


def integer(cell: str, bits: int = 63) -> int:
    """A number that so many bits and a sign hold. ValueError: it is none of these."""
    if len(cell) > MOST_DIGITS or abs(number := int(cell)) >> bits:
        raise ValueError(cell)
    return number


def count(cell: str, bits: int = 63) -> int:
    """The same without a sign."""
    if (number := integer(cell, bits)) < 0:
        raise ValueError(cell)
    return number
