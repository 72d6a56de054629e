# SPDX-License-Identifier: Apache-2.0
"""Export: columns in, a CSV file out (RFC 4180, but lines end with a line feed)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from iostrata.export.rows import Column

ROWS_AT_ONCE: Final = 50_000


def write_csv(path: Path, columns: Iterable[Column]) -> None:
    """One row a write, after a row of names."""
    table = list(columns)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(column.name for column in table)
        for first in range(0, len(table[0].values), ROWS_AT_ONCE):
            part = [_texts(column, first, first + ROWS_AT_ONCE) for column in table]
            writer.writerows(zip(*part, strict=True))


def _texts(column: Column, first: int, last: int) -> Sequence[Any]:
    values = column.values[first:last].tolist()
    return [column.names[code] for code in values] if column.names else values
