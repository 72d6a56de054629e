# SPDX-License-Identifier: Apache-2.0
"""Export stage: writes in, files of other programs' formats out."""

from iostrata.export.arrow import check_arrow, table_of
from iostrata.export.csv import write_csv
from iostrata.export.packets import check_perfetto
from iostrata.export.parquet import SPANS, write_parquet
from iostrata.export.perfetto import write_perfetto
from iostrata.export.rows import columns
from iostrata.export.slices import slices_of
from iostrata.export.spans import batches

__all__ = [
    "SPANS", "batches", "check_arrow", "check_perfetto", "columns", "slices_of", "table_of",
    "write_csv", "write_parquet", "write_perfetto",
]  # fmt: skip
