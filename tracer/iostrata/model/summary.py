# SPDX-License-Identifier: Apache-2.0
"""What people are shown: figures, tables, timelines and comparisons, computed once.

Structs, as they hold no columns: a dataclass of each would take longer to make, at every start,
than to analyse a short recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from iostrata.model.bins import Bin, OverTime
from iostrata.model.breakdown import Layer, Quality, Who


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
    """From ``at_ns`` after the first write on, writes take ``times`` as long as before.

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


class Summary(Struct, frozen=True):
    """All that a report may print: computed once, rendered many times.

    ``composition``: for each column of codes (``method``, ``size`` ...) how many
    of the analysed writes have each name, most frequent first. ``onset``, ``period``: where
    it is proven that there is one. ``histogram``, ``over_time``: if they were asked for.
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


class Evidence(Struct, frozen=True):
    """What the recording's keys say is behind a stretch of time; None: not known, or none.

    ``call``: name of the system call. ``device``: name; ``sector``: in 512-byte
    sectors from the start of that disk. ``request_key``: the kernel's pointer.
    ``transaction``: of the journal. ``more``: requests beside this one. ``offset_bytes``:
    in the file that the call is for. ``xid`` and ``connection`` (client's port << 16 |
    server's): of the remote call. ``hop``, ``bound_ns``: of a way between two machines,
    how far its ends may be off. ``who``: another process that had what was waited for.
    """

    call: str | None = None
    device: str | None = None
    sector: int | None = None
    size_bytes: int | None = None
    request_key: int | None = None
    transaction: int | None = None
    more: int = 0
    offset_bytes: int | None = None
    xid: int | None = None
    connection: int | None = None
    hop: str | None = None
    bound_ns: int | None = None
    who: Who | None = None


class Step(Struct, frozen=True):
    """One layer's uninterrupted hold of one write; ``layer`` None: unattributed.

    ``begin_ns``/``end_ns`` count from the begin of the write, ``called_ns`` is the
    begin without the caller's own time between the calls before it.
    """

    layer: Layer | None
    begin_ns: int
    end_ns: int
    called_ns: int
    evidence: Evidence


class Lane(Struct, frozen=True):
    """One layer's share of one write; ``layer`` None: unattributed."""

    layer: Layer | None
    time_ns: int
    share: float


class Timeline(Struct, frozen=True):
    """One write, instant by instant. Law: the steps' durations add up to ``latency_ns``.

    ``number``: 1 for the first of the recording's ``of`` analysed writes. ``why``:
    what it was chosen for. ``begin_ns``: CLOCK_MONOTONIC; ``realtime_ns``: since
    1970, None where the recording has no clock sample. ``calls_ns``: begin of each
    call, without the caller's own time between them, which is ``caller_ns``.
    """

    number: int
    of: int
    why: str
    machine: str
    names: Mapping[str, str]
    tid: int
    size_bytes: int
    inode: int
    offset_bytes: int
    begin_ns: int
    realtime_ns: int | None
    latency_ns: int
    caller_ns: int
    calls_ns: tuple[int, ...]
    lanes: tuple[Lane, ...]
    steps: tuple[Step, ...]


class Change(Struct, frozen=True):
    """One row of a comparison, from side A to side B, in ns: means over a side's runs.

    ``low_ns``..``high_ns``: the confidence interval of ``change_ns``, which is
    signed. ``share``: the change as a part of A's total mean (of A's own value
    for the total's percentiles); ``detectable``: the least rise that would probably
    be found, likewise. ``verdict``: ``slower``, ``faster``; ``same``: all runs agree;
    ``noise``: any change is small; ``unclear``: it may be large or none; empty: not judged.
    """

    a_ns: float
    b_ns: float
    change_ns: float
    low_ns: float
    high_ns: float
    share: float
    detectable: float
    verdict: str

    @property
    def real(self) -> bool:
        return self.verdict in ("slower", "faster")


class ChangeRow(Struct, frozen=True):
    """``layer`` None: unattributed. ``unlike``: not all runs observed it alike."""

    layer: Layer | None
    change: Change
    unlike: bool


class ComparedGroup(Struct, frozen=True):
    """Writes of one kind in all runs. Law: the rows' changes add up to the total's.

    ``known``: there is enough for the intervals to mean something. ``needed_runs``: of
    each side, to find a change of the total that is not small; None: not known, or hundreds.
    """

    name: str
    count_a: int
    count_b: int
    known: bool
    total: Change
    p50: Change
    p99: Change
    rows: tuple[ChangeRow, ...]
    needed_runs: int | None


class Regression(Struct, frozen=True):
    """``row``: ``total``, ``p99`` or a layer's name."""

    group: str
    row: str
    share: float


class Comparison(Struct, frozen=True):
    """Two sides of one run or more each, layer by layer.

    ``confidence``: that all intervals hold; ``power``: how probably what is ``detectable``
    is found. ``judged``: both sides have runs enough for a verdict. ``only_a``, ``only_b``:
    groups that no run of the other has; ``not_in_all``: those that some runs of a side have.
    ``mixes``: columns (``method``, ``size``) of which the two hold different parts.
    ``one_after_the_other``: no run of one side was made between those of the other.
    ``small``: the share below which a change does not matter; ``limit``: that above which
    a real change for the worse is a regression; None: nothing is.
    """

    confidence: float
    power: float
    grouped_by: str
    runs_a: int
    runs_b: int
    judged: bool
    groups: tuple[ComparedGroup, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    not_in_all: tuple[str, ...]
    mixes: tuple[str, ...]
    one_after_the_other: bool
    small: float
    limit: float | None
    regressions: tuple[Regression, ...]
    quality_a: tuple[Quality, ...]
    quality_b: tuple[Quality, ...]


Basis = Literal[
    "given", "echo", "tcp least round trip", "tcp round trip", "serial requests", "the rest",
    "their sum", "ignored",
    "no connection seen", "tcp waits for replies", "no device recorded", "no request seen",
    "never alone", "others unknown",
]  # fmt: skip
"""Where a guess comes from; or, from ``no connection seen`` on, why there is none."""


class Guess(Struct, frozen=True):
    """One term of the classic arithmetic beside what was measured: means in ns a write.

    ``segments``: what it is a guess of; ``unattributed`` among them is the residual.
    ``guess_ns`` None: nothing tells it. ``of``: the machine or device that it was read
    from, in ``samples``. ``measured_ns`` None: not measured apart from ``merged_into``.
    """

    segments: tuple[str, ...]
    guess_ns: float | None
    basis: Basis
    measured_ns: float | None
    of: str = ""
    samples: int = 0
    merged_into: str = ""

    @property
    def error_ns(self) -> float | None:
        if self.guess_ns is None or self.measured_ns is None:
            return None
        return self.guess_ns - self.measured_ns

    @property
    def error_share(self) -> float | None:
        """Of what was measured; None where that is nothing."""
        if self.error_ns is None or not self.measured_ns:
            return None
        return self.error_ns / self.measured_ns


class Estimate(Struct, frozen=True):
    """What ping, 1/IOPS and subtraction say of a write, and what the recording says.

    Law: the guesses that are not merged into another add up to the total, as what
    was measured does, if all are known. What the arithmetic forgets is guessed as 0.
    """

    machine: str
    writes: int
    total_ns: float
    guesses: tuple[Guess, ...]


class Fact(Struct, frozen=True):
    name: str
    value: str


class LiveSummary(Struct, frozen=True):
    """What the live view shows: the writes of the last seconds, and how it came to that.

    ``table``: of ``seconds``; None: there was no write. ``sampled``: the part of that
    time that was analysed (0..1). ``writes_per_s`` and ``strips``: a value an interval of the
    view, the latest last; strips are mean ns a write by (machine, layer), None where there
    was no write, ``total`` and ``unattributed`` being on machine "". ``chosen``: the name
    that the writes must have in a column (``method``, ...). ``lost``: events, by point.
    """

    table: Table | None
    seconds: float
    sampled: float
    writes_per_s: tuple[float, ...]
    strips: Mapping[tuple[str, str], tuple[float | None, ...]]
    chosen: Mapping[str, str]
    lost: Mapping[str, int]
