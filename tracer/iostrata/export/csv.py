# SPDX-License-Identifier: Apache-2.0
"""Export: columns in, a CSV file out; the first line holds their names.

Rows are made of all columns at once: a matrix of characters, in which NUL is no
character. One Python string a cell would take most of the time of an export.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.crew import by_threads
from iostrata.export.rows import Column
from iostrata.foreign import cell

ROWS_AT_ONCE: Final = 20_000
GROUP: Final = 4
ALL_GROUPS: Final = 10**GROUP
ZERO: Final = np.frombuffer(b"\0\0\0" + b"0", np.uint32)[0]
MINUS: Final = np.frombuffer(b"-\0\0\0", np.uint32)[0]

Characters = NDArray[np.uint8]


@cache
def _groups() -> NDArray[np.uint32]:
    """The characters of 0 to 9999 as they begin a number, then as they stand within one."""
    texts = [str(part).rjust(GROUP, "\0") for part in range(ALL_GROUPS)]
    texts[0] = "\0" * GROUP
    texts += [str(part).rjust(GROUP, "0") for part in range(ALL_GROUPS)]
    return np.frombuffer("".join(texts).encode(), np.uint32)


def write_csv(path: Path, columns: Iterable[Column], jobs: int = 1) -> None:
    """One row a write, after a row of names; RFC 4180, but lines end with a line feed.

    ``jobs``: by so many threads.
    """
    columns = list(columns)
    lines = _by_columns(columns) if native.LIBRARY is None else _in_c(columns, jobs)
    with path.open("wb") as file:
        file.write(",".join(column.name for column in columns).encode() + b"\n")
        for text in lines:
            file.write(text)


def _in_c(columns: Sequence[Column], jobs: int) -> Iterator[memoryview]:
    names = [[name.replace(b"\0", b"") for name in _cells(column.names)] for column in columns]
    ends = [np.cumsum([len(name) for name in own], dtype=np.int64) for own in names]
    texts = [np.frombuffer(b"".join(own) or b"\0", np.uint8) if own else None for own in names]

    def lines(first: int) -> memoryview:
        cells = [
            native.Cells(column.values[first : first + ROWS_AT_ONCE], text, end)
            for column, text, end in zip(columns, texts, ends, strict=True)
        ]
        return native.lines(cells, len(cells[0].value)).data

    firsts = range(0, len(columns[0].values), ROWS_AT_ONCE)
    for turn in range(0, len(firsts), jobs):
        yield from by_threads(lines, firsts[turn : turn + jobs], jobs)


def _by_columns(columns: Sequence[Column]) -> Iterator[bytes]:
    texts = [_table(column.names) if column.names else None for column in columns]
    for first in range(0, len(columns[0].values), ROWS_AT_ONCE):
        cells = []
        for column, text in zip(columns, texts, strict=True):
            values = column.values[first : first + ROWS_AT_ONCE]
            cells += [_numbers(values) if text is None else text[values], _repeated(values, ",")]
        cells[-1] = _repeated(cells[0], "\n")
        yield np.hstack(cells).tobytes().translate(None, b"\0")


def _numbers(values: NDArray[np.integer]) -> Characters:
    """Decimal digits, with a sign where one is needed: uint8, shape (values, characters)."""
    # Of the least number the size is right without a sign only.
    rest = np.abs(values.astype(np.int64)).view(np.uint64)
    groups = -(-len(str(rest.max(initial=0))) // GROUP)
    # A group for the sign comes first.
    words = np.zeros((len(values), groups + 1), np.uint32)
    for group in range(groups, 0, -1):
        higher = rest // ALL_GROUPS
        part = (rest - higher * ALL_GROUPS).astype(np.int64)
        words[:, group] = _groups()[part + ALL_GROUPS * (higher > 0)]
        rest = higher
    words[values == 0, groups] = ZERO
    below = values < 0
    words[below, 0] = MINUS
    characters = words.view(np.uint8)
    return characters if below.any() else characters[:, GROUP:]


def _table(names: Iterable[str]) -> Characters:
    """Each name as a row of characters."""
    cells = _cells(names)
    width = max(1, *map(len, cells))
    return np.frombuffer(b"".join(cell.ljust(width, b"\0") for cell in cells), "u1").reshape(
        -1, width
    )


def _cells(names: Iterable[str]) -> list[bytes]:
    """Each name as a cell of CSV, quoted if need be."""
    cells: list[bytes] = []
    for name in names:
        text = io.StringIO()
        # A cell behind it, because an empty one alone would be quoted.
        csv.writer(text, lineterminator="\n").writerow([cell(name), ""])
        cells.append(text.getvalue().removesuffix(",\n").encode())
    return cells


def _repeated(values: NDArray[np.generic], character: str) -> Characters:
    return np.full((len(values), 1), ord(character), np.uint8)
