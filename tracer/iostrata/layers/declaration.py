# SPDX-License-Identifier: Apache-2.0
"""What a layer declares: its rows, its ranks, its programs, and how it shows that it is not seen.

Everything that is said of a layer anywhere (tables, colours, pages of the docs, what
``doctor`` tells, what ends a sleep) is derived from its one declaration.
"""

from __future__ import annotations

from enum import IntEnum, auto

from msgspec import Struct


class Depth(IntEnum):
    """How deep a rank is: of two at work for a write at an instant, the deeper holds the time.

    Of one depth, the later in the order of the layers does.
    """

    WAY = auto()
    """Between two machines, or what kept the way up."""
    FLOOR = auto()
    """The call itself: nothing else is at work."""
    WORK = auto()
    """On the CPU for a part of it that is told apart."""
    ASLEEP = auto()
    """For no reason that was observed."""
    BY_TIME = auto()
    """What only time ties to the write claims no more than such a sleep."""
    LOCK = auto()
    JOURNAL = auto()
    HANDED = auto()
    """To a kernel worker, whatever that does for it: what is told of that work is deeper."""
    CALLING = auto()
    """A remote call that is not on its way yet, or is back."""
    WAKING = auto()
    QUEUED = auto()
    STACKED = auto()
    """Amid a stacked device's own work: asleep for no reason that was observed."""
    UNDER = auto()
    """Below a stacked device: what its worker calls, and the next such device."""
    BELOW = auto()
    """As under it, and deeper than the next such device: what is below that, or serves any."""
    SERVED = auto()
    """Whoever serves it, in whatever it waits in or below that, has no CPU."""
    AWAY = auto()
    """A remote call that is on its way: whatever is beyond."""
    DEVICE = auto()
    CARRIED = auto()
    """By a driver to another machine, that has the device."""
    DONE = auto()
    """The device is done with it, or may be: whoever is told so has no CPU."""


class Row(Struct, frozen=True):
    """One row of the table.

    ``segment``: ``OS`` (of its machine), ``upper OS`` (of the machine that the hop
    comes from), ``device``, ``hypervisor``, ``network``, ``not followed``, or ``beyond``
    (what a call to a machine that was not recorded took). ``points``: what its time is
    made of. ``grows``: when, and what to do. ``column``: of the benchmark's table.
    ``cause``: what a verdict calls it, together with others; empty: its segment.
    ``of_host``: on a host, its own work as that of its segments. ``queued``: what operators call
    queueing there. ``contended``: others may have what it
    waits for, and it is told who. ``reasoned``: it is told why it was. ``untied``: it has what
    a device does below for itself, too.
    """

    name: str
    segment: str
    meaning: str
    points: tuple[str, ...]
    grows: str
    colour: str
    column: str
    cause: str = ""
    of_host: bool = False
    queued: bool = False
    contended: bool = False
    reasoned: bool = False
    untied: bool = False


class Rank(Struct, frozen=True):
    """One level of the stack; ``row``: the table row that it credits, None the residual.

    ``wakes``: its end wakes who sleeps. ``asks``: it waits for what is below the machine.
    ``untold``: for what there, is not told: what has it is not followed.
    ``instead_of``: the rank that a machine's own events give, of which a hop from above tells more.
    ``of_upper``: of a hop, on the machine that it comes from, whose own row it is.
    """

    name: str
    row: str | None
    depth: Depth
    wakes: bool = False
    asks: bool = False
    untold: bool = False
    instead_of: str = ""
    of_upper: bool = False


class Stage(Struct, frozen=True):
    """A part of a request's time in its device, credited to a rank.

    From the end of the stage before it (the first: from the issue) to the last hit of any
    of the points ``ends`` by the request's key; without points: to its completion. A stage of
    which one end was not seen is left to the device's row.
    """

    rank: str
    ends: tuple[str, ...] = ()


class Programs(Struct, frozen=True):
    """The BPF programs whose names begin with ``prefix`` and an underscore.

    They have nothing to see, and may be missing, unless one of ``mounts`` (file systems) is
    mounted, a ``disk`` whose name begins so is there, a thread of the kind ``thread`` was
    recorded, the machine is the upper one of one of the ``hops``, or serves by the hop ``serves``;
    empty, 0: always. ``library``: or unless a process has mapped what they look at.
    """

    prefix: str
    mounts: frozenset[str] = frozenset()
    disk: str = ""
    thread: int = 0
    hops: frozenset[str] = frozenset()
    serves: str = ""
    library: bool = False


class Visibility(Struct, frozen=True):
    """What ``doctor`` says of a layer: which of its probes work, and what it means to miss them.

    ``prefixes``: of its programs; ``programs``: or those very ones, which it needs all.
    ``needed``: without it nothing can be said of a write. ``absent``: what it means that the
    kernel has no such points; "": as if they were refused. ``debugfs``: what is lost where
    that is not mounted, and how to mount it; "": nothing. ``role``: of the machines that are
    recorded for this. ``calls``: what is missed is whole writes, not time of those in the table.
    """

    name: str
    prefixes: tuple[str, ...]
    without: str
    programs: tuple[str, ...] = ()
    needed: bool = False
    calls: bool = False
    absent: str = ""
    debugfs: str = ""
    role: str = ""


class Observer(Struct, frozen=True):
    """Points of which one must have been hit, or else ``name`` was not observed.

    ``reason``: why not; ``merged_into``: what shows its time then. ``detail``: asked of
    recordings with (True) or without (False) ``--detail`` only; ``given``: only of those in
    which one of these points was hit. ``held``: said only where that row holds some of the time.
    """

    name: str
    points: tuple[str, ...]
    reason: str
    merged_into: str
    detail: bool | None = None
    given: tuple[str, ...] = ()
    held: bool = False


class Declaration(Struct, frozen=True):
    """All that is declared of one layer; what it has none of is empty."""

    rows: tuple[Row, ...] = ()
    ranks: tuple[Rank, ...] = ()
    stages: tuple[Stage, ...] = ()
    programs: tuple[Programs, ...] = ()
    visibility: tuple[Visibility, ...] = ()
    observers: tuple[Observer, ...] = ()
