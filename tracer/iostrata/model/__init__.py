# SPDX-License-Identifier: Apache-2.0
"""What travels between the stages."""

from iostrata.columns import Ints
from iostrata.model.breakdown import (
    UNKNOWN,
    Behind,
    Breakdown,
    Cost,
    Crossing,
    Layer,
    LeftOver,
    NotObserved,
    Quality,
    Selection,
    WaitSite,
    Who,
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
    Part,
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
    "UNKNOWN", "Basis", "Behind", "Breakdown", "Cause", "Change", "ChangeRow", "Charts",
    "ComparedGroup", "Comparison", "Cost", "Crossing", "Estimate", "Evidence", "Excess", "Fact",
    "Figures", "Guess", "Ints", "Lane", "Layer", "LeftOver", "LiveSummary", "NotObserved", "Part",
    "Quality", "Regression", "Row", "SegmentRow", "Selection", "Stack", "Step", "Sum", "Summary",
    "Table", "Tail", "TailRow", "TailSegment", "Timeline", "WaitSite", "Who", "Writes",
]  # fmt: skip
