# SPDX-License-Identifier: Apache-2.0
"""The classic arithmetic beside what was measured."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Basis = Literal[
    "given", "echo", "tcp least round trip", "tcp round trip", "serial requests", "the rest",
    "their sum", "ignored",
    "no connection seen", "tcp waits for replies", "no device recorded", "no request seen",
    "never alone", "others unknown",
]  # fmt: skip
"""Where a guess comes from; or, from ``no connection seen`` on, why there is none."""


class Guess(Struct, frozen=True):
    """One term of the classic arithmetic beside what was measured: means in ns a write.

    ``segments``: what it is a guess of; ``unattributed`` among them is the residual.
    ``guess_ns`` None: nothing tells it. ``of``: the machine or device that it was read
    from, in ``samples``. ``measured_ns`` None: not measured apart from ``merged_into``.
    """

    segments: tuple[str, ...]
    guess_ns: float | None
    basis: Basis
    measured_ns: float | None
    of: str = ""
    samples: int = 0
    merged_into: str = ""

    @property
    def error_ns(self) -> float | None:
        if self.guess_ns is None or self.measured_ns is None:
            return None
        return self.guess_ns - self.measured_ns

    @property
    def error_share(self) -> float | None:
        """Of what was measured; None where that is nothing."""
        if self.error_ns is None or not self.measured_ns:
            return None
        return self.error_ns / self.measured_ns


class Estimate(Struct, frozen=True):
    """What ping, 1/IOPS and subtraction say of a write, and what the recording says.

    Law: the guesses that are not merged into another add up to the total, as what
    was measured does, if all are known. What the arithmetic forgets is guessed as 0.
    """

    machine: str
    writes: int
    total_ns: float
    guesses: tuple[Guess, ...]
