# SPDX-License-Identifier: Apache-2.0
"""One write, instant by instant: what people are shown of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from iostrata.model.breakdown import Layer, Op, Quality, Who


class Evidence(Struct, frozen=True):
    """What the recording's keys say is behind a stretch of time; None: not known, or none.

    ``call``: name of the system call. ``device``: name; ``sector``: in 512-byte
    sectors from the start of that disk. ``request_key``: the kernel's pointer.
    ``transaction``: of the journal. ``more``: requests beside this one. ``offset_bytes``:
    in the file that the call is for. ``xid`` and ``connection`` (client's port << 16 |
    server's): of the remote call. ``unique``: of a file system's request. ``hop``, ``bound_ns``:
    of a way between two machines, how far its ends may be off. ``who``: another process that had
    what was waited for.
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
    unique: int | None = None
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
    call, without the caller's own time between them, which is ``caller_ns``. ``op``: what the
    "write" is; ``served``: of a read, from where, else empty.
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
    op: Op = Op.SYNC
    served: str = ""


class Seen(Struct, frozen=True):
    """``quality``: what may be missing; its ``ties`` are not counted, and what is left over is of
    the time of these writes."""

    timelines: tuple[Timeline, ...]
    quality: Quality
