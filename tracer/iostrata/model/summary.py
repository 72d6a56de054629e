# SPDX-License-Identifier: Apache-2.0
"""What people are shown: figures and tables, computed once.

Structs, as they hold no columns: a dataclass of each would take longer to make, at every start,
than to analyse a short recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from iostrata.model.bins import Bin, OverTime
from iostrata.model.breakdown import Layer, Op, Quality, Who


class Figures(Struct, frozen=True):
    """One row's numbers, in ns; ``share`` of the total's mean (0..1, signed)."""

    mean_ns: float
    p50_ns: float
    p95_ns: float
    p99_ns: float
    max_ns: float
    share: float


class Part(Struct, frozen=True):
    """What one process is behind of a row: mean ns a write, and that as a part of the total's."""

    who: Who
    mean_ns: float
    share: float


class Row(Struct, frozen=True):
    """``behind``: who had what was waited for, the most first; their means add up to the row's.

    Empty where that makes no sense, or was not recorded.
    """

    layer: Layer
    figures: Figures
    behind: tuple[Part, ...] = ()


class SegmentRow(Struct, frozen=True):
    """What the layers of one segment held together, write by write."""

    segment: str
    machine: str
    figures: Figures


class Excess(Struct, frozen=True):
    """How much more time the slow writes had here than the typical ones, in ns a write.

    ``typical_ns``, ``slow_ns``: means; ``excess_ns``: their difference, signed;
    ``share``: of the total's excess. ``leads``: slow writes that exceed the
    typical mean by more here than in any other layer.
    """

    typical_ns: float
    slow_ns: float
    excess_ns: float
    share: float
    leads: int


class TailRow(Struct, frozen=True):
    layer: Layer
    excess: Excess


class TailSegment(Struct, frozen=True):
    """What the layers of one segment exceed together; ``leads``: among the segments."""

    segment: str
    machine: str
    excess: Excess


class Tail(Struct, frozen=True):
    """What makes the slowest writes slow: they against those around the median.

    ``slow``: the slowest 1 % (at least one), of ``slow_from_ns`` and more;
    ``typical``: those between ``typical_from_ns`` and ``typical_to_ns``, p45 and
    p55. Law: the rows' excess plus the residual's is the total's; so is the segments'.
    """

    slow: int
    slow_from_ns: int
    typical: int
    typical_from_ns: int
    typical_to_ns: int
    total: Excess
    rows: tuple[TailRow, ...]
    residual: Excess
    segments: tuple[TailSegment, ...] = ()


class Cause(Struct, frozen=True):
    """Rows that have one word for them: one that they declare, or else their segment's name.

    ``share``: of the total's mean; ``tail_share``: of what the slow writes take longer, None
    where there is no tail. ``most``: the row with most of the time. ``device``: whether any
    of it is a device's. ``behind``: who else has most of it, None: nobody is known to.
    """

    name: str
    declared: bool
    share: float
    tail_share: float | None
    most: Row
    device: bool
    behind: Part | None = None


class Sum(Struct, frozen=True):
    """What some rows held together, write by write, by a name of the field."""

    name: str
    figures: Figures


class Table(Struct, frozen=True):
    """One group of writes: ``rows`` in stack order; means of rows + residual = total's mean.

    ``segments``: subtotals, in the order of ``rows``; may be left empty. ``tail``:
    None where there are too few writes to tell a tail from the rest. ``causes``: what the
    rows come down to, most first. ``operators``: of a host, GAVG and its parts.
    ``share``: of the time of all writes.
    """

    name: str
    count: int
    total: Figures
    rows: tuple[Row, ...]
    residual: Figures
    segments: tuple[SegmentRow, ...] = ()
    tail: Tail | None = None
    causes: tuple[Cause, ...] = ()
    operators: tuple[Sum, ...] = ()
    share: float = 1.0


class Onset(Struct, frozen=True):
    """From ``at_ns`` after the recording's first write on, writes take ``times`` as long as before.

    ``row``: what has most of the difference, and ``share`` its part of it.
    """

    at_ns: int
    times: float
    row: str
    share: float


class Period(Struct, frozen=True):
    """Every ``period_ns`` some writes take ``times`` as long, as ``count`` times was seen."""

    period_ns: int
    count: int
    times: float
    row: str
    share: float


WRITTEN: Final = "written"
"""Of what is no read, in the place of what served it."""


class Served(Struct, frozen=True):
    """The reads that one place served, and how long each took, in ns. ``share``: of all reads."""

    name: str
    count: int
    share: float
    mean_ns: float


class Summary(Struct, frozen=True):
    """All that a report may print: computed once, rendered many times.

    ``composition``: for each column of codes (``method``, ``size`` ...) how many
    of the analysed writes have each name, most frequent first. ``onset``, ``period``: where
    it is proven that there is one. ``histogram``, ``over_time``: if they were asked for.
    ``op``: what is summed up; ``served``: of reads, from where, most first.
    """

    overall: Table
    grouped_by: str
    groups: tuple[Table, ...]
    left_out: Mapping[str, int]
    quality: Quality
    composition: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    onset: Onset | None = None
    period: Period | None = None
    histogram: tuple[Bin, ...] = ()
    over_time: OverTime | None = None
    op: Op = Op.SYNC
    served: tuple[Served, ...] = ()


class Fact(Struct, frozen=True):
    name: str
    value: str


class LiveSummary(Struct, frozen=True):
    """What the live view shows: the writes of the last seconds, and how it came to that.

    ``table``: of ``seconds``; None: there was no write. ``sampled``: the part of that
    time's events that was analysed (0..1); what was stands for all that was like it. ``missing``:
    the part of all time in calls like which none was analysed (0..1), and writes that took longer
    than ``seen_ns`` may be missing of those that no call ended (None: none may). ``error``: by what
    part the total's mean may be off (two standard errors), None: nobody knows. ``writes_per_s``
    and ``strips``: a value an interval of the view, the latest last; strips are mean ns a
    write by (machine, layer), None where there was no write, ``total`` and ``unattributed``
    being on machine "". ``chosen``: the name that the writes must have in a column
    (``method``, ...). ``lost``: events, by point. ``hanging``: calls that began before, and are
    not over yet.
    """

    table: Table | None
    seconds: float
    sampled: float
    seen_ns: int | None
    writes_per_s: tuple[float, ...]
    strips: Mapping[tuple[str, str], tuple[float | None, ...]]
    chosen: Mapping[str, str]
    lost: Mapping[str, int]
    hanging: int = 0
    error: float | None = 0.0
    missing: float = 0.0
