# SPDX-License-Identifier: Apache-2.0
"""What analysis makes: frozen columns, never one object an event.

A *write* is one synchronous write: everything between a caller asking for
durability and getting it. Its latency is the time the caller spent in the
system calls that belong to it (its *pieces*). Where it was asked for reads, a
*write* is a read: one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints


class Op(StrEnum):
    """What a breakdown is of."""

    SYNC = "sync"
    """Synchronous writes."""
    READ = "read"
    """Calls and requests that read a file."""
    DIRECT = "direct"
    """Those that read or write past the page cache (O_DIRECT)."""

    @property
    def word(self) -> str:
        """One of what it is of."""
        return {Op.SYNC: "write", Op.READ: "read", Op.DIRECT: "transfer"}[self]


@dataclass(frozen=True)
class Layer:
    """A place where a write's time can go: one row of the table.

    ``name`` is ``layer`` or ``layer.part`` (``block.Q2D``, ``device.flush``), behind
    ``machine/`` where several machines are tied; ``segment`` is what the short
    table groups by; ``meaning`` is one line.
    """

    name: str
    segment: str
    machine: str
    meaning: str

    @property
    def row(self) -> str:
        """The name without its machine."""
        return self.name.rpartition("/")[2]


@dataclass(frozen=True, eq=False)
class Writes:
    """One row a synchronous write: machine by machine, in order of ``begin_ns``.

    ``begin_ns``/``end_ns``/``latency_ns``: int64 ns, CLOCK_MONOTONIC of the write's
    own machine; ``latency_ns`` is the sum of the pieces' durations, so the
    caller's own time between them is not in it. ``realtime_ns``: the begin, since 1970;
    None where clocks were not sampled. ``codes`` of ``machine``, ``method``, ``process``,
    ``file_system``, ``device``: int32, into the ``names`` of that column.
    ``size_bytes``, ``durable_writes``: what it made durable, by whomever it was written:
    bytes, and how many writes; ``pieces``: the caller's own calls. Of reads ``served`` as well:
    the furthest place that it waited for. ``first_ns``: where these are some of a recording's,
    when its first write of each machine began; None: they are all.
    """

    begin_ns: Ints
    end_ns: Ints
    latency_ns: Ints
    tid: Ints
    tgid: Ints
    size_bytes: Ints
    durable_writes: Ints
    pieces: Ints
    device_key: Ints
    inode: Ints
    offset_bytes: Ints
    codes: Mapping[str, NDArray[np.int32]]
    names: Mapping[str, tuple[str, ...]]
    realtime_ns: Ints | None = None
    first_ns: Ints | None = None

    @property
    def machines(self) -> tuple[str, ...]:
        """Those with a workload."""
        return self.names["machine"]

    @property
    def passed_ns(self) -> Ints:
        """Since the recording's first write of the same machine: each has a clock of its own."""
        passed: Ints = self.begin_ns - self.firsts_ns[self.codes["machine"]]
        return passed

    @property
    def firsts_ns(self) -> Ints:
        """When the recording's first write of each machine began."""
        if self.first_ns is not None:
            return self.first_ns
        first: Ints = np.full(len(self.machines), np.iinfo(np.int64).max)
        np.minimum.at(first, self.codes["machine"], self.begin_ns)
        return first

    def __len__(self) -> int:
        return len(self.begin_ns)


@dataclass(frozen=True)
class NotObserved:
    """A layer that this recording cannot tell apart, why, and what shows it merged.

    ``machines``: on which of several; empty: there is one, or ``layer`` says it.
    """

    layer: str
    reason: str
    merged_into: str
    machines: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The layer, and on which machines."""
        return f"{self.layer} on {', '.join(self.machines)}" if self.machines else self.layer


@dataclass(frozen=True)
class Cost:
    """What recording cost; None where it was not measured.

    ``unmeasured``: the tool whose cost is not known; empty: iostrata's own recorder was there.
    """

    events: int
    duration_ns: int
    bpf_ns: int | None
    recorder_cpu_ns: int | None
    unmeasured: str = ""

    @property
    def events_per_s(self) -> float:
        return self.events / (self.duration_ns / 1e9) if self.duration_ns else 0.0

    @property
    def recorder_share(self) -> float | None:
        """Of one core, 0..1 and more."""
        if self.recorder_cpu_ns is None or not self.duration_ns:
            return None
        return self.recorder_cpu_ns / self.duration_ns

    def bpf_ns_a_write(self, writes: int) -> float | None:
        return self.bpf_ns / writes if self.bpf_ns is not None and writes else None


@dataclass(frozen=True)
class Crossing:
    """How one machine was tied to the next.

    ``asked``: what the upper machine sent down; ``followed``: of that, what was found
    below by its key; ``ambiguous``: left untied, because more than one may be its own.
    ``clock``: where the relation of their clocks comes from, ``bound_ns``: how far it
    may be off, ``drift_ppm``. ``contradiction``: what speaks against it, or empty.
    ``bypassed``: disks of the upper machine of whose requests the lower one saw none.
    ``readdressed``: of what was followed, what went through connections of which the two
    machines know different addresses. ``by``: what was followed by its ``key``, or by the last
    ``interrupt`` before its end. ``beyond``: the segment of what is not followed.
    """

    hop: str
    upper: str
    lower: str
    asked: int
    followed: int
    ambiguous: int
    clock: str
    bound_ns: int
    drift_ppm: float
    contradiction: str = ""
    bypassed: tuple[str, ...] = ()
    readdressed: int = 0
    by: str = "key"
    beyond: str = ""


@dataclass(frozen=True)
class LeftOver:
    """What one machine did of one kind at one place, and no write consists of.

    ``count``: how many. ``time_ns``: of what is background, its own time; of what may be
    a write's, that of the writes that slept meanwhile.
    """

    machine: str
    kind: str
    place: str
    count: int
    time_ns: int


@dataclass(frozen=True)
class WaitSite:
    """ns a write that was unattributed while a thread slept there.

    ``site``: functions of the kernel, the innermost first (``a < b``: b called a).
    """

    machine: str
    site: str
    time_ns: float


@dataclass(frozen=True)
class Who:
    """A process by its name, and the path of its control group; empty: not known.

    ``idle`` in no group is nobody: the CPU, or the disk, had nothing to do. ``vm``: the virtual
    machine that it runs, empty: none. All its threads are one, whatever groups they are in.
    """

    machine: str
    process: str
    cgroup: str = ""
    vm: str = ""


UNKNOWN: Final = Who("", "unknown")


@dataclass(frozen=True)
class Crowd:
    """Several who had something together: ``percent`` of each, 100 in all, the most first."""

    members: tuple[Who, ...]
    percent: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Behind:
    """Who had what the writes waited for: columns of equal length, int32, the times int64.

    ``write``, ``layer``, ``who``: rows of the writes, of the layers, of ``names``. Law: of
    each layer that is here at all, the times of a write add up to its time in that layer;
    what was not seen is of ``UNKNOWN``.
    """

    write: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    layer: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    who: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    time_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    names: tuple[Who, ...] = ()


@dataclass(frozen=True)
class Unseen:
    """Sleeps of writes of which nobody was seen to end them: how many, unattributed ns a write."""

    machine: str
    count: int
    time_ns: float


@dataclass(frozen=True)
class Waker:
    """Who ended sleeps of writes for no cause that was observed: unattributed ns a write; or let go
    what a stacked ``device`` had held back: of ``block.stacked``. ``recorded``: what it did itself,
    too."""

    who: Who
    time_ns: float
    device: str = ""
    recorded: bool = True


@dataclass(frozen=True)
class Selection:
    """Some of a recording's writes: ``of`` so many, chosen ``by`` these words."""

    of: int
    by: tuple[str, ...]


LEFT_OVER_LIMIT: Final = 0.01
"""Above this part of the writes' time, what is left over makes a result doubtful."""

UNSEEN_LIMIT: Final = 0.1
"""From this part of the writes on, those that nobody saw end make a result doubtful."""


@dataclass(frozen=True)
class Quality:
    """Printed under every table: what the numbers rest on.

    ``lost``: events refused, by ``machine:point``. ``damage``: one line a
    defect of the recording itself (truncated packet, failed checksum).
    ``plain_writes``: writes that nobody synchronised: counted, not analysed. ``unsure_syncs``:
    those analysed that may be of more writes, or fewer: calls before them were lost;
    ``partial_syncs``: of more, as not all who wrote were recorded, or not since they did.
    ``ties``: requests tied to a write, by ``key``, by ``place`` (of a stripe, in a file) or by
    ``time`` only.
    ``crossings``: from machine to machine; ``crossed``: machines, and rows there that have time of
    what was followed by these; ``unfollowed``: writes that asked
    something of another machine that was found on none, or of a daemon one of whose other threads
    may have done it, or of Ceph's library, and for what is not told. ``hidden``: by machine, ns a
    write during which it was awaited, but behind what took longer. ``sites``: where the
    unattributed time was slept, the most of it first; empty without ``--why``; ``stacks``: it was
    recorded with that. ``asleep_share``: which part of that time was seen to be slept. ``unseen``:
    what of it was slept until a wake-up that no event tells of, by machine; ``wakers``: who ended
    the rest of it, where that is much.
    ``apart``: one line a machine that could not be tied to any other, and why.
    ``virtual``: one line a disk that another machine serves, which was not recorded.
    ``connections``: one line each of an NFS client's that broke, or on which something was sent
    again; and of a network disk whose driver
    gave requests back. ``background``: what is part of no write; ``left_over``: of that, what went
    on at a write's own place while it slept with nothing of its own under way;
    ``left_over_share``: that time, as a part of all latencies. ``unseen_share``: which part of the
    writes that ended is left out, as nobody saw them end. ``selection``: which writes the
    numbers are of, None: of all; all else here is the whole recording's.
    """

    lost: Mapping[str, int] = field(default_factory=dict)
    damage: tuple[str, ...] = ()
    plain_writes: int = 0
    unsure_syncs: int = 0
    partial_syncs: int = 0
    ties: Mapping[str, int] = field(default_factory=dict)
    not_observed: tuple[NotObserved, ...] = ()
    cost: Cost | None = None
    crossings: tuple[Crossing, ...] = ()
    crossed: tuple[tuple[str, str], ...] = ()
    unfollowed: int = 0
    hidden: Mapping[str, float] = field(default_factory=dict)
    sites: tuple[WaitSite, ...] = ()
    asleep_share: float = 0.0
    stacks: bool = False
    unseen: tuple[Unseen, ...] = ()
    wakers: tuple[Waker, ...] = ()
    apart: tuple[str, ...] = ()
    virtual: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    background: tuple[LeftOver, ...] = ()
    left_over: tuple[LeftOver, ...] = ()
    left_over_share: float = 0.0
    unseen_share: float = 0.0
    selection: Selection | None = None

    @property
    def doubtful(self) -> bool:
        """The numbers may be wrong for what is missing or could not be tied to a write."""
        missing = bool(self.lost or self.damage) or self.too_many_unseen
        return missing or self.too_much_left_over

    @property
    def too_many_unseen(self) -> bool:
        return self.unseen_share >= UNSEEN_LIMIT

    @property
    def too_much_left_over(self) -> bool:
        return self.left_over_share > LEFT_OVER_LIMIT


@dataclass(frozen=True, eq=False)
class Breakdown:
    """Where every analysed write spent its time.

    ``time_ns``: int64, shape (layers, writes). ``residual_ns``: int64, shape
    (writes,), signed. Law: ``time_ns.sum(0) + residual_ns == writes.latency_ns``.
    ``left_out``: writes not analysed, by reason. ``behind``: who had what they waited for.
    ``op``: what "writes" are here.
    """

    writes: Writes
    layers: tuple[Layer, ...]
    time_ns: NDArray[np.int64]
    residual_ns: Ints
    left_out: Mapping[str, int]
    quality: Quality
    behind: Behind = field(default_factory=Behind)
    op: Op = Op.SYNC
