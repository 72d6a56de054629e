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

WRITES: Final = "iostrata.writes/1"
SPANS: Final = "iostrata.spans/1"
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


def write_parquet(
    path: Path,
    batches: Iterable[Iterable[Column]],
    quality: Quality,
    schema: str = WRITES,
) -> None:
    """Batches of rows with the same columns; metadata ``iostrata`` says what they rest on."""
    from pyarrow import parquet  # noqa: PLC0415

    found = {
        "schema": schema,
        "lost": {name: int(count) for name, count in quality.lost.items()},
        "damage": list(quality.damage),
    }
    writer = None
    for columns in batches:
        table = _table(columns).replace_schema_metadata({"iostrata": json.dumps(found)})
        writer = writer or parquet.ParquetWriter(path, table.schema, **_encoding(table.schema))
        writer.write_table(table, row_group_size=ROWS_A_GROUP)
    if writer:
        writer.close()


def _encoding(schema: Any) -> dict[str, Any]:
    """Texts as dictionaries, numbers as differences: a dictionary of times would only grow."""
    from pyarrow import types  # noqa: PLC0415

    texts = [field.name for field in schema if types.is_dictionary(field.type)]
    numbers = {field.name: "DELTA_BINARY_PACKED" for field in schema if field.name not in texts}
    return {"compression": "zstd", "use_dictionary": texts, "column_encoding": numbers}


def _table(columns: Iterable[Column]) -> Any:
    import pyarrow  # noqa: PLC0415

    arrays: dict[str, Any] = {}
    for column in columns:
        values = pyarrow.array(np.ascontiguousarray(column.values))
        if column.names:
            values = pyarrow.DictionaryArray.from_arrays(
                values.cast(pyarrow.int32()),
                pyarrow.array(column.names, pyarrow.string()),
            )
        arrays[column.name] = values
    return pyarrow.table(arrays)
