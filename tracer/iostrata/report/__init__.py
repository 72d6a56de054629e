# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary in, text out. No arithmetic: what is printed was computed before.

To add a report: one module with ``render(summary) -> str`` and one line in ``REPORTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from iostrata.model import Summary
from iostrata.report import (
    comparison,
    comparison_json,
    csv,
    estimate,
    estimate_json,
    json,
    live,
    page,
    quality,
    series,
    spread,
    table,
    timeline_json,
    waterfall,
)
from iostrata.report.breakdown import Breakdown
from iostrata.report.comparison_json import Comparison
from iostrata.report.document import Count, Ns, rounded_ns, text
from iostrata.report.estimate_json import Estimate
from iostrata.report.live import ORDERS, View
from iostrata.report.page import Page
from iostrata.report.quality import labelled, wrapped
from iostrata.report.quantity import Unit, cut
from iostrata.report.timeline_json import Timelines


@dataclass(frozen=True)
class Report:
    name: str
    render: Callable[[Summary], str]


REPORTS: Final = (
    Report("table", table.plain),
    Report("json", json.render),
    Report("csv", csv.render),
)

__all__ = [
    "ORDERS", "REPORTS", "Breakdown", "Comparison", "Count", "Estimate", "Ns", "Page", "Report",
    "Timelines", "Unit", "View", "comparison", "comparison_json", "csv", "cut", "estimate",
    "estimate_json", "json", "labelled", "live", "page", "quality", "rounded_ns", "series",
    "spread", "table", "text", "timeline_json", "waterfall", "wrapped",
]  # fmt: skip
