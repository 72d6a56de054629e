# SPDX-License-Identifier: Apache-2.0
"""What travels between the stages."""

from iostrata.columns import Ints
from iostrata.model.bins import Bin, Charts, Course, OverTime, Stack
from iostrata.model.breakdown import (
    UNKNOWN,
    Behind,
    Breakdown,
    Cost,
    Crossing,
    Crowd,
    Layer,
    LeftOver,
    NotObserved,
    Op,
    Quality,
    Selection,
    Unseen,
    WaitSite,
    Waker,
    Who,
    Writes,
)
from iostrata.model.comparison import (
    Beside,
    Change,
    ChangeRow,
    ChangeServed,
    ComparedGroup,
    Comparison,
    Regression,
)
from iostrata.model.estimate import Basis, Estimate, Guess
from iostrata.model.series import Repeated, Series, SeriesGroup, SeriesRow, ServedInRuns
from iostrata.model.summary import (
    WRITTEN,
    Cause,
    Excess,
    Fact,
    Figures,
    LiveSummary,
    Onset,
    Part,
    Period,
    Row,
    SegmentRow,
    Served,
    Sum,
    Summary,
    Table,
    Tail,
    TailRow,
    TailSegment,
)
from iostrata.model.timeline import Evidence, Lane, Seen, Step, Timeline

__all__ = [
    "UNKNOWN", "WRITTEN", "Basis", "Behind", "Beside", "Bin", "Breakdown", "Cause", "Change",
    "ChangeRow", "ChangeServed", "Charts", "ComparedGroup", "Comparison", "Cost", "Course",
    "Crossing", "Crowd", "Estimate", "Evidence", "Excess", "Fact", "Figures", "Guess", "Ints",
    "Lane", "Layer", "LeftOver", "LiveSummary", "NotObserved", "Onset", "Op", "OverTime", "Part",
    "Period", "Quality", "Regression", "Repeated", "Row", "Seen", "SegmentRow", "Selection",
    "Series", "SeriesGroup", "SeriesRow", "Served", "ServedInRuns", "Stack", "Step", "Sum",
    "Summary", "Table", "Tail", "TailRow", "TailSegment", "Timeline", "Unseen", "WaitSite", "Waker",
    "Who", "Writes",
]  # fmt: skip
