# SPDX-License-Identifier: Apache-2.0
"""Spans to segments to figures."""

from iostrata.attribute.blocks import blocks
from iostrata.attribute.charts import charts
from iostrata.attribute.choice import Choice, Chosen, percentile
from iostrata.attribute.compare import compare
from iostrata.attribute.drift import FEWEST_RUNS
from iostrata.attribute.run import Run, run_of
from iostrata.attribute.selection import (
    ALL,
    WallTime,
    Wanted,
    by_segment,
    chosen,
    joined,
    joined_writes,
    process_name,
    select,
)
from iostrata.attribute.series import series
from iostrata.attribute.spread import histogram, over_time
from iostrata.attribute.summarise import regrouped, summarise, tabulate, tabulate_weighed
from iostrata.attribute.sweep import Credit, Held, Shared, attribute, share, sweep
from iostrata.attribute.timeline import segments

__all__ = [
    "ALL", "FEWEST_RUNS", "Choice", "Chosen", "Credit", "Held", "Run", "Shared", "WallTime",
    "Wanted", "attribute", "blocks", "by_segment", "charts", "chosen", "compare", "histogram",
    "joined", "joined_writes", "over_time", "percentile", "process_name", "regrouped", "run_of",
    "segments", "select", "series", "share", "summarise", "sweep", "tabulate", "tabulate_weighed",
]  # fmt: skip
