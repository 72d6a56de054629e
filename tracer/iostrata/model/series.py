# SPDX-License-Identifier: Apache-2.0
"""What is told of several runs of one thing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from iostrata.model.breakdown import Layer, Op, Quality


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


class ServedInRuns(Struct, frozen=True):
    """The reads that one place served, in several runs.

    ``shares``: of each run's reads; ``share``: their mean. ``mean_ns``: how long one took, mean of
    the runs that have any; None: none has.
    """

    name: str
    shares: tuple[float, ...]
    share: float
    mean_ns: float | None


class SeriesGroup(Struct, frozen=True):
    """Law: the rows' means add up to the total's. ``counts``: writes in each run.

    ``served``: of reads, from where, most first.
    """

    name: str
    counts: tuple[int, ...]
    total: Repeated
    p50: Repeated
    p99: Repeated
    rows: tuple[SeriesRow, ...]
    served: tuple[ServedInRuns, ...] = ()


class Series(Struct, frozen=True):
    """``confidence``: of each interval, by itself. ``not_in_all``: groups that some runs lack.

    ``op``: what the "writes" are.
    ``left_out``: writes of all runs that were not analysed, by reason.
    """

    confidence: float
    groups: tuple[SeriesGroup, ...]
    not_in_all: tuple[str, ...]
    quality: tuple[Quality, ...]
    op: Op = Op.SYNC
    left_out: Mapping[str, int] = field(default_factory=dict)
