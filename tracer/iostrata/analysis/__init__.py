# SPDX-License-Identifier: Apache-2.0
"""A recording to what is said of it: Breakdown, timelines, the classic arithmetic."""

from iostrata.analysis.arithmetic import Given, estimate
from iostrata.analysis.beside import Beside
from iostrata.analysis.path import Path
from iostrata.analysis.pipeline import analyse, breakdown_of
from iostrata.analysis.prepared import Prepared, prepare
from iostrata.analysis.quality import quality_of
from iostrata.analysis.so_far import SoFar, nobody
from iostrata.analysis.timelines import timelines, timelines_of
from iostrata.stitch import LOST

__all__ = [
    "LOST", "Beside", "Given", "Path", "Prepared", "SoFar", "analyse", "breakdown_of", "estimate",
    "nobody", "prepare", "quality_of", "timelines", "timelines_of",
]  # fmt: skip
