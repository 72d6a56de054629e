# SPDX-License-Identifier: Apache-2.0
"""Export: columns in, an Arrow table out (texts as dictionaries)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from iostrata.errors import MissingPackage
from iostrata.export.rows import Column


def check_arrow(what: str, otherwise: str = "") -> None:
    """MissingPackage if pyarrow is not installed; ``otherwise``: what could be done without it."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingPackage(
            f"{what} needs pyarrow, which cannot be loaded: {error}",
            f'pip install "iostrata[parquet]"{otherwise}',
        ) from error


def table_of(columns: Iterable[Column]) -> Any:
    """A pyarrow.Table."""
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
