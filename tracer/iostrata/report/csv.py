# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary as CSV, one row a group and layer.

The group of all writes comes first and is called ``all``; every group begins
with its ``total`` and ends with its ``unattributed`` time. Times in ns.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final

from iostrata.foreign import cell
from iostrata.model import Figures, Summary, Table
from iostrata.report.document import rounded_ns
from iostrata.report.json import printed_means_ps

COLUMNS: Final = (
    "grouped_by",
    "group",
    "writes",
    "machine",
    "segment",
    "layer",
    "share",
    "mean_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "max_ns",
)


def render(summary: Summary) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_rows("", "all", summary.overall))
    for group in summary.groups:
        writer.writerows(_rows(summary.grouped_by, group.name, group))
    return text.getvalue()


def _rows(grouped_by: str, name: str, table: Table) -> Iterator[tuple[str | int, ...]]:
    head = (grouped_by, cell(name), table.count)
    yield (*head, "", "", "total", *_figures(table.total))
    means_ps, residual_ps = printed_means_ps(table)
    for row, mean_ps in zip(table.rows, means_ps, strict=True):
        layer = row.layer
        place = layer.machine, layer.segment, layer.name
        yield (*head, *place, *_figures(row.figures, mean_ps))
    yield (*head, "", "", "unattributed", *_figures(table.residual, residual_ps))


def _figures(figures: Figures, mean_ps: int | None = None) -> tuple[str, ...]:
    """``mean_ps``: what is printed of its mean, None: as the others are, of which it is the sum."""
    columns = (
        rounded_ns(figures.mean_ns) if mean_ps is None else mean_ps / 1000,
        figures.p50_ns,
        figures.p95_ns,
        figures.p99_ns,
        figures.max_ns,
    )
    return (f"{figures.share:.6f}", *(f"{column:.3f}" for column in columns))
