# SPDX-License-Identifier: Apache-2.0
"""Export: columns in, a Parquet file out (zstd; texts as dictionaries)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

from iostrata.errors import UsageError
from iostrata.export.rows import Column
from iostrata.model import Quality

SCHEMA: Final = "iostrata.writes/1"
ROWS_A_GROUP: Final = 1 << 18


def check_parquet() -> None:
    """UsageError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError(
            f"Parquet needs pyarrow, which cannot be loaded: {error}",
            'pip install "iostrata[parquet]", or export --csv',
        ) from error


def write_parquet(path: Path, columns: Iterable[Column], quality: Quality) -> None:
    """One row a write; the file's metadata ``iostrata`` says what the rows rest on."""
    import pyarrow  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    found = {
        "schema": SCHEMA,
        "lost": {name: int(count) for name, count in quality.lost.items()},
        "damage": list(quality.damage),
    }
    arrays: dict[str, Any] = {}
    for column in columns:
        values = pyarrow.array(np.ascontiguousarray(column.values))
        if column.names:
            values = pyarrow.DictionaryArray.from_arrays(
                values.cast(pyarrow.int32()), pyarrow.array(column.names, pyarrow.string())
            )
        arrays[column.name] = values
    table = pyarrow.table(arrays).replace_schema_metadata({"iostrata": json.dumps(found)})
    parquet.write_table(table, path, compression="zstd", row_group_size=ROWS_A_GROUP)
