# SPDX-License-Identifier: Apache-2.0
"""Bench: Measurements in, pg_test_fsync's table out, with the layers beside each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from iostrata.bench.result import COLUMNS, SELDOM, Measurement
from iostrata.report import Unit

NAME_WIDTH: Final = 22
RATE_WIDTH: Final = 8
TIME_WIDTH: Final = 7
COLUMN_WIDTH: Final = 6
MICROSECONDS: Final = Unit("us", 1e3, 1)


def lines(measurements: Sequence[Measurement], width: int) -> Iterator[str]:
    """79 columns, more on NFS; a terminal too narrow for the layers gets the plain table."""
    columns = [column for column in COLUMNS if column not in SELDOM or _any(measurements, column)]
    columns.append("other")
    room = NAME_WIDTH + RATE_WIDTH + TIME_WIDTH + COLUMN_WIDTH * len(columns)
    if width < room or all(found.column_ns is None for found in measurements):
        columns = []
    head = f"{'':<{NAME_WIDTH}}{'ops/sec':>{RATE_WIDTH}}{'us/op':>{TIME_WIDTH}}"
    yield head + "".join(f"{column:>{COLUMN_WIDTH}}" for column in columns)
    for group, members in groupby(measurements, key=lambda found: found.phase.group):
        yield ""
        yield f"{group}:"
        for found in members:
            yield _line(found, columns)


def _any(measurements: Sequence[Measurement], column: str) -> bool:
    return any(found.column_ns and found.column_ns[column] for found in measurements)


def _line(found: Measurement, columns: Sequence[str]) -> str:
    phase = found.phase
    name = f"  {phase.name:<{NAME_WIDTH - 2}}"
    if not phase.operations:
        return f"{name}{'n/a':>{RATE_WIDTH}}  {phase.unavailable}"
    text = f"{name}{phase.operations_a_second:>{RATE_WIDTH}.0f}"
    text += f"{MICROSECONDS.text(phase.ns_an_operation, TIME_WIDTH - 1):>{TIME_WIDTH}}"
    if found.column_ns is None or found.other_ns is None:
        return text
    held = {**found.column_ns, "other": found.other_ns}
    return text + "".join(
        f"{MICROSECONDS.text(held[column], COLUMN_WIDTH - 1):>{COLUMN_WIDTH}}" for column in columns
    )
