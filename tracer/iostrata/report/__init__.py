# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary in, text out. No arithmetic: what is printed was computed before.

To add a report: one module with ``render(summary) -> str`` and one line in ``REPORTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from iostrata.model import Summary
from iostrata.report import csv, json, table


@dataclass(frozen=True)
class Report:
    name: str
    render: Callable[[Summary], str]


REPORTS: Final = (
    Report("table", table.plain),
    Report("json", json.render),
    Report("csv", csv.render),
)

__all__ = ["REPORTS", "Report", "csv", "json", "table"]
