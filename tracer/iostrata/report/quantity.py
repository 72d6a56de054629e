# SPDX-License-Identifier: Apache-2.0
"""Report stage: numbers and names in a fixed number of characters, one unit a table."""

from __future__ import annotations

from dataclasses import dataclass

from iostrata import units


@dataclass(frozen=True)
class Unit:
    """One unit for a whole table, so that its columns can be compared by eye."""

    name: str
    ns: float
    decimals: int

    def text(self, ns: float, width: int) -> str:
        """``ns`` in this unit in ``width`` characters; with a unit of its own if it must be.

        A plain ``0`` is exactly nothing, ``0.0`` is less than can be shown.
        """
        if ns == 0:
            return "0"
        for decimals in range(self.decimals, -1, -1):
            text = f"{ns / self.ns:.{decimals}f}"
            if len(text) <= width:
                return _unsigned_zero(text)
        return units.duration(ns).replace(" ", "")


def unit_for(typical_ns: float) -> Unit:
    if typical_ns < 100e3:
        return Unit("us", 1e3, 2)
    return Unit("us", 1e3, 1) if typical_ns < 100e6 else Unit("ms", 1e6, 1)


def share(part: float) -> str:
    return _unsigned_zero(f"{part:.1%}")


def _unsigned_zero(text: str) -> str:
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


def tail_of(path: str, width: int) -> str:
    """``path`` in ``width`` characters, its begin marked when it was cut: its end says more."""
    return path if len(path) <= width else "~" + path[len(path) - width + 1 :]


def cut(name: str, width: int) -> str:
    """``name`` in ``width`` characters, its end marked when it was cut."""
    return name if len(name) <= width else name[: width - 1] + "~"
