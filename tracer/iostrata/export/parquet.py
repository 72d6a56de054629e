# SPDX-License-Identifier: Apache-2.0
"""Export: columns in, a Parquet file out (zstd; texts as dictionaries)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from iostrata.export.arrow import table_of
from iostrata.export.rows import Column
from iostrata.model import Quality

WRITES: Final = "iostrata.writes/1"
SPANS: Final = "iostrata.spans/1"
ROWS_A_GROUP: Final = 1 << 18


def write_parquet(
    path: Path,
    batches: Iterable[Iterable[Column]],
    quality: Callable[[], Quality],
    schema: str = WRITES,
) -> None:
    """Batches of rows with the same columns; metadata ``iostrata`` says what they rest on.

    ``quality``: is asked for when there are no more batches.
    """
    from pyarrow import OSFile, parquet  # noqa: PLC0415

    writer = None
    with ExitStack() as open_files:
        # A path may be any bytes, which only this takes.
        file = open_files.enter_context(OSFile(os.fsencode(path), "wb"))
        for columns in batches:
            table = table_of(columns)
            writer = writer or open_files.enter_context(
                parquet.ParquetWriter(file, table.schema, **_encoding(table.schema))
            )
            writer.write_table(table, row_group_size=ROWS_A_GROUP)
        if writer:
            known = quality()
            found = {
                "schema": schema,
                "lost": {name: int(count) for name, count in known.lost.items()},
                "damage": list(known.damage),
                "left_over_share": round(known.left_over_share, 6),
            }
            writer.add_key_value_metadata({"iostrata": json.dumps(found)})


def _encoding(schema: Any) -> dict[str, Any]:
    """Texts as dictionaries, numbers as differences: a dictionary of times would only grow."""
    from pyarrow import types  # noqa: PLC0415

    texts = [field.name for field in schema if types.is_dictionary(field.type)]
    numbers = {field.name: "DELTA_BINARY_PACKED" for field in schema if field.name not in texts}
    return {"compression": "zstd", "use_dictionary": texts, "column_encoding": numbers}
