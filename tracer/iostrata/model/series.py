# SPDX-License-Identifier: Apache-2.0
"""What is told of several runs of one thing."""

from __future__ import annotations

from msgspec import Struct

from iostrata.model.breakdown import Layer, Quality


class Repeated(Struct, frozen=True):
    """A figure of several runs, in ns a write.

    ``low_ns``, ``high_ns``: between them is the mean of all such runs. ``runs_ns``: each run's.
    """

    mean_ns: float
    low_ns: float
    high_ns: float
    runs_ns: tuple[float, ...]


class SeriesRow(Struct, frozen=True):
    """``layer`` None: what is unattributed. ``share``: of the total's mean."""

    layer: Layer | None
    figure: Repeated
    share: float


class SeriesGroup(Struct, frozen=True):
    """Law: the rows' means add up to the total's. ``counts``: writes in each run."""

    name: str
    counts: tuple[int, ...]
    total: Repeated
    p50: Repeated
    p99: Repeated
    rows: tuple[SeriesRow, ...]


class Series(Struct, frozen=True):
    """``confidence``: of each interval, by itself. ``not_in_all``: groups that some runs lack."""

    confidence: float
    groups: tuple[SeriesGroup, ...]
    not_in_all: tuple[str, ...]
    quality: tuple[Quality, ...]
