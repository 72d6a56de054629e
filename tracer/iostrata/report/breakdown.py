# SPDX-License-Identifier: Apache-2.0
"""The document ``iostrata.breakdown/1``: what a program is given of a Summary."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from iostrata.report.document import Count, Ns, Share


class Total(Struct, frozen=True):
    """Of a write's latency: ns."""

    mean: Ns
    p50: Ns
    p95: Ns
    p99: Ns
    max: Ns


class Figures(Struct, frozen=True, kw_only=True):
    """Of one row. ``share``: of the total's mean; may be negative for the residual."""

    mean_ns: Ns
    p50_ns: Ns
    p95_ns: Ns
    p99_ns: Ns
    max_ns: Ns
    share: Share


class Home(Struct, frozen=True, kw_only=True):
    """Where a process belongs, behind whatever else is said of it: as of a Part."""

    cgroup: str | UnsetType = UNSET
    container: str | UnsetType = UNSET
    virtual_machine: str | UnsetType = UNSET


class Part(Home, frozen=True):
    """What one process is behind of a row: ns a write, and as a part of the total's mean.

    ``process``: ``unknown``: it was not seen; ``idle``: nobody, the CPU or the disk had nothing
    to do. ``cgroup``: path in version 2 of control groups. ``container``: what that path
    says. ``virtual_machine``: that it runs, by its QEMU's name or by that path.
    """

    process: str
    mean_ns: Ns
    share: Share


class LayerFigures(Figures, frozen=True):
    """``behind``: who had what was waited for; their means add up to this one (but for rounding).

    Left out where that makes no sense, or was not recorded.
    """

    layer: str
    machine: str
    segment: str
    behind: list[Part] | UnsetType = UNSET


class SegmentFigures(Figures, frozen=True):
    """The sum of a segment's layers, write by write."""

    segment: str
    machine: str


class Excess(Struct, frozen=True, kw_only=True):
    """Of one row: means of the typical and of the slow writes, and their difference.

    ``share``: of the total's difference. ``leads``: how many of the slow writes exceed the typical
    mean by most in this row.
    """

    typical_ns: Ns
    slow_ns: Ns
    excess_ns: Ns
    share: Share
    leads: Count


class LayerExcess(Excess, frozen=True):
    layer: str
    machine: str
    segment: str


class SegmentExcess(Excess, frozen=True):
    segment: str
    machine: str


class Slow(Struct, frozen=True):
    """The slowest 1 % of the writes, of ``from_ns`` and more."""

    writes: Count
    from_ns: int


class Typical(Struct, frozen=True):
    """The writes between p45 and p55."""

    writes: Count
    from_ns: int
    to_ns: int


class Tail(Struct, frozen=True):
    """What makes the slowest writes slow: they beside the typical ones."""

    slow: Slow
    typical: Typical
    total: Excess
    layers: list[LayerExcess]
    residual: Excess
    segments: list[SegmentExcess] | UnsetType = UNSET


class Sum(Figures, frozen=True):
    """Of several rows, write by write."""

    name: str


class Table(Struct, frozen=True, kw_only=True):
    """Some writes: ``layers`` in the order of the stack.

    As printed (read them as decimals), the means of the layers plus the mean of the residual are
    the mean of the total, exactly. ``segments``: only there if the writes went through several
    machines, or into one that was not recorded. ``tail``: null where there are fewer than 20.
    ``operators``, where a host was recorded: GAVG = KAVG + DAVG, and QAVG, a part of KAVG; where
    something was not found on the host, its time is ``unfollowed``, a part of GAVG only.
    """

    total_ns: Total
    layers: list[LayerFigures]
    residual: Figures
    segments: list[SegmentFigures] | UnsetType = UNSET
    tail: Tail | None
    operators: list[Sum] | UnsetType = UNSET


class Group(Table, frozen=True):
    """The writes of one name in the column that they are grouped by."""

    name: str
    writes: Count


class Writes(Struct, frozen=True):
    """``left_out``: how many were not analysed, by reason."""

    analysed: Count
    left_out: dict[str, Count]


class NotObserved(Struct, frozen=True):
    """A layer that this recording cannot tell apart, why, and the row that holds its time."""

    layer: str
    reason: str
    merged_into: str


class Clock(Struct, frozen=True):
    """How two machines' clocks were related. ``bound_ns``: how far that may be off.

    ``contradiction``: what speaks against it, or null.
    """

    source: str
    bound_ns: int
    drift_ppm: float
    contradiction: str | None


class Crossing(Struct, frozen=True):
    """How one machine's requests were followed to the next.

    ``followed``: of those ``asked``, found below by their key; ``ambiguous``: it fitted twice.
    ``bypassed``: disks of whose requests the lower machine saw none; only there if there are any.
    ``readdressed``: of those followed, what went through connections of which the two machines
    know different addresses; only there if there are any. ``by``: ``interrupt`` where no key tells
    requests apart, and each was followed by the last interrupt before its end; else not there.
    """

    hop: str
    upper: str
    lower: str
    asked: Count
    followed: Count
    ambiguous: Count
    clock: Clock
    bypassed: list[str] | UnsetType = UNSET
    readdressed: Count | UnsetType = UNSET
    by: str | UnsetType = UNSET


class LeftOver(Struct, frozen=True):
    """What one machine did of one kind at one place, and no write consists of."""

    machine: str
    kind: str
    place: str
    count: Count
    time_ns: int


class Cost(Struct, frozen=True):
    """What recording cost; null where it was not measured."""

    events: Count
    duration_ns: int
    events_per_s: float
    bpf_ns: int | None
    recorder_cpu_ns: int | None


class Selection(Struct, frozen=True):
    """``of``: all analysed writes; ``by``: what holds for those that the numbers are of."""

    of: Count
    by: list[str]


class WaitSite(Struct, frozen=True):
    """``site``: functions of the kernel, the innermost first. ``mean_ns``: a write."""

    machine: str
    site: str
    mean_ns: Ns


class Unseen(Struct, frozen=True):
    """``count``: sleeps of which nobody was seen to end them. ``mean_ns``: a write."""

    machine: str
    count: Count
    mean_ns: Ns


class Waker(Home, frozen=True):
    """Who ended sleeps for no cause that was observed, or let go what a stacked ``device`` had held
    back, which is of ``block.stacked``. ``mean_ns``: a write; all else as a Part's.

    ``process``: also ``an interrupt`` and ``a timer``. ``recorded`` is false where it is not
    recorded what that did itself.
    """

    machine: str
    process: str
    mean_ns: Ns
    device: str | UnsetType = UNSET
    recorded: bool = True


class Quality(Struct, frozen=True, kw_only=True):
    """What the numbers rest on.

    ``lost``: events by ``machine:point``. ``damage``: a line a defect of the recording.
    ``plain_writes``: nobody synchronised them: counted, not analysed. ``ties``: requests tied to a
    write, by ``key``, ``place`` or ``time`` only. Only there if there are any: ``unsure_syncs``,
    those analysed that may be of more writes, or fewer, as calls before them were lost;
    ``partial_syncs``, of more, as not all calls were recorded; ``apart``, a line a machine that was
    not tied to the others; ``virtual``, a line a disk that a machine serves which was not recorded;
    ``connections``, a line each of an NFS client's that broke or sent something again, and of a
    network disk whose driver gave requests back; ``selection``, which writes the numbers are of,
    all else being of the whole recording; ``background``, what is part of no write, with its own
    time; ``left_over``, what of it went on at a write's own place while that slept with nothing of
    its own under way, with the writes' time, and ``left_over_share``, that time as a part of all
    latencies; ``crossings``, from machine to machine, with ``unfollowed``, the writes of which
    something was not found below; ``hidden``, by machine, ns a write during which it was awaited,
    but something else longer; ``sites``, functions of the kernel in which the unattributed time was
    slept, ns a write; ``unseen``, what of it was slept until a wake-up that no event tells of;
    ``wakers``, who ended the rest of it, or let go what a stacked device held back, where that is
    much.
    """

    lost: dict[str, Count]
    damage: list[str]
    plain_writes: Count
    ties: dict[str, Count]
    not_observed: list[NotObserved]
    unsure_syncs: Count | UnsetType = UNSET
    partial_syncs: Count | UnsetType = UNSET
    apart: list[str] | UnsetType = UNSET
    virtual: list[str] | UnsetType = UNSET
    connections: list[str] | UnsetType = UNSET
    background: list[LeftOver] | UnsetType = UNSET
    left_over: list[LeftOver] | UnsetType = UNSET
    left_over_share: Share | UnsetType = UNSET
    crossings: list[Crossing] | UnsetType = UNSET
    unfollowed: Count | UnsetType = UNSET
    selection: Selection | UnsetType = UNSET
    hidden: dict[str, Ns] | UnsetType = UNSET
    sites: list[WaitSite] | UnsetType = UNSET
    unseen: list[Unseen] | UnsetType = UNSET
    wakers: list[Waker] | UnsetType = UNSET
    cost: Cost | None


class Bin(Struct, frozen=True):
    """The writes of ``from_ns`` and more, below ``to_ns``.

    ``up_to``: the part of all writes that is below ``to_ns``. ``mean_ns``: of these; null where
    there are none. ``most_in``: the row that holds most of their time, with its part of that.
    """

    from_ns: int
    to_ns: int
    writes: Count
    share: Share
    up_to: Share
    mean_ns: Ns | None
    most_in: str | None
    most_in_share: Share


class Served(Struct, frozen=True):
    """The reads of which this is the furthest place that they waited for.

    ``name``: ``page cache``, ``readahead under way``, ``device``, ``device behind a limit`` (of a
    control group's), ``server`` (of NFS), ``daemon`` (of a file system in user space), ``kernel``
    (what it makes up itself), ``not told``; of several machines, the first four behind that
    machine's name.
    ``share``: of all reads. ``mean_ns``: of one's latency.
    """

    name: str
    reads: Count
    share: Share
    mean_ns: Ns


class RowOverTime(Struct, frozen=True):
    """Its part of the latency in each stretch of time; null where there is no write."""

    layer: str
    shares: list[Share | None]


class OverTime(Struct, frozen=True):
    """Equal stretches of time: ``edges_s`` since the recording's first write, one more.

    ``mean_ns``: of a write that began then; null where there is none. ``layers``: those that hold
    most of the time of all, and what is ``unattributed``.
    """

    edges_s: list[float]
    writes_per_s: list[float]
    mean_ns: list[Ns | None]
    layers: list[RowOverTime]


class Breakdown(Struct, frozen=True, kw_only=True, tag_field="schema", tag="iostrata.breakdown/1"):
    """Where the synchronous writes of a recording spent their time: all of them, then by group.

    ``grouped_by``: the column (``method``, ``process``, ...). ``verdict``: in plain words, a
    sentence each. ``histogram``, ``over_time``: with --histogram and --over-time. ``op``: what
    all of it is of instead, whatever "writes" says: ``read``: what reads, and ``served`` tells from
    where; ``direct``: what has O_DIRECT.
    """

    writes: Writes
    total_ns: Total
    layers: list[LayerFigures]
    residual: Figures
    segments: list[SegmentFigures] | UnsetType = UNSET
    tail: Tail | None
    operators: list[Sum] | UnsetType = UNSET
    grouped_by: str
    groups: list[Group]
    quality: Quality
    verdict: list[str]
    histogram: list[Bin] | UnsetType = UNSET
    over_time: OverTime | UnsetType = UNSET
    op: str | UnsetType = UNSET
    served: list[Served] | UnsetType = UNSET
