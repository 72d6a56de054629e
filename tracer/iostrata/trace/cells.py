# SPDX-License-Identifier: Apache-2.0
"""Trace: a cell of a fact to the number that it is."""

from __future__ import annotations

import re
from typing import Final

NUMBER: Final = re.compile("-?[0-9]{1,20}")
"""As recorders write it: int() takes more, as digits of any script."""


def integer(cell: str, bits: int = 63) -> int:
    """A number that so many bits and a sign hold. ValueError: it is none of these."""
    if not NUMBER.fullmatch(cell) or abs(number := int(cell)) >> bits:
        raise ValueError(cell)
    return number


def count(cell: str, bits: int = 63) -> int:
    """The same without a sign."""
    if (number := integer(cell, bits)) < 0:
        raise ValueError(cell)
    return number
