# SPDX-License-Identifier: Apache-2.0
"""What travels between the stages."""

from iostrata.columns import Ints
from iostrata.model.breakdown import (
    Breakdown,
    Cost,
    Crossing,
    Layer,
    LeftOver,
    NotObserved,
    Quality,
    Selection,
    WaitSite,
    Writes,
)
from iostrata.model.summary import (
    Basis,
    Cause,
    Change,
    ChangeRow,
    Charts,
    ComparedGroup,
    Comparison,
    Estimate,
    Evidence,
    Excess,
    Fact,
    Figures,
    Guess,
    Lane,
    LiveSummary,
    Regression,
    Row,
    SegmentRow,
    Stack,
    Step,
    Sum,
    Summary,
    Table,
    Tail,
    TailRow,
    TailSegment,
    Timeline,
)

__all__ = [
    "Basis", "Breakdown", "Cause", "Change", "ChangeRow", "Charts", "ComparedGroup", "Comparison",
    "Cost", "Crossing", "Estimate", "Evidence", "Excess", "Fact", "Figures", "Guess", "Ints",
    "Lane", "Layer", "LeftOver", "LiveSummary", "NotObserved", "Quality", "Regression", "Row",
    "SegmentRow", "Selection", "Stack", "Step", "Sum", "Summary", "Table", "Tail", "TailRow",
    "TailSegment", "Timeline", "WaitSite", "Writes",
]  # fmt: skip
