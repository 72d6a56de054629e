# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: writes in, the few that are worth a look by themselves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from iostrata.attribute.summarise import grouping
from iostrata.columns import Ints, rows_of
from iostrata.errors import UsageError
from iostrata.model import Writes


@dataclass(frozen=True)
class Chosen:
    """``row``: of the Writes. ``why``: ``p99``, ``slowest``, ``slowest fsync`` ..."""

    row: int
    why: str


@dataclass(frozen=True)
class Choice:
    """What to look at: the slowest, those nearest to percentiles, or by number (from 1).

    ``by``: each of it in every group of writes; empty: of all writes together.
    """

    slowest: int = 0
    near: tuple[float, ...] = ()
    numbers: tuple[int, ...] = ()
    by: str = ""

    def of(self, writes: Writes, among: Ints | None = None) -> list[Chosen]:
        """In the order asked for; a write that is asked for twice comes once.

        ``among``: rows of the writes, all but those by number are one of them; None: of all.
        Errors: UsageError for a number that no write has.
        """
        chosen = [*self._numbered(len(writes))]
        for group, rows in _groups(writes, self.by, among):
            latency = writes.latency_ns[rows]
            order = rows[np.argsort(latency, kind="stable")]
            for percent in self.near:
                place = max(int(np.ceil(percent / 100 * len(order))) - 1, 0)
                chosen.append(Chosen(int(order[place]), _named(f"p{percent:g}", group)))
            for place, row in enumerate(order[::-1][: self.slowest].tolist(), 1):
                why = "slowest" if place == 1 else f"slowest but {place - 1}"
                chosen.append(Chosen(row, _named(why, group)))
        reasons: dict[int, list[str]] = {}
        for one in chosen:
            reasons.setdefault(one.row, []).append(one.why)
        return [Chosen(row, ", ".join(filter(None, whys))) for row, whys in reasons.items()]

    def _numbered(self, count: int) -> Iterator[Chosen]:
        for number in self.numbers:
            if not 1 <= number <= count:
                raise UsageError(
                    f"there is no write {number}", f"this recording's writes are 1 to {count}"
                )
            yield Chosen(number - 1, "")


def percentile(text: str) -> float:
    """``p99``, ``p99.9``, ``50``, ``max`` as a number of percent. Errors: UsageError."""
    if text == "max":
        return 100.0
    try:
        percent = float(text.removeprefix("p"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise UsageError(f"{text!r} is no percentile", "p50, p99, p99.9 or max, for example")
    return percent


def _named(why: str, group: str) -> str:
    return f"{why} of {group}" if group else why


def _groups(writes: Writes, by: str, among: Ints | None) -> Iterator[tuple[str, Ints]]:
    rows = np.arange(len(writes)) if among is None else among
    if not by:
        yield "", rows
        return
    codes, names = grouping(writes, by)
    for code, mine in rows_of(codes[rows]).items():
        yield names[code], rows[mine]
